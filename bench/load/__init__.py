"""Load generators side by side against one stand-in: what each can send, how late, and at what cost."""
