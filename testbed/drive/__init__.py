"""The open-loop client: sends each request at its planned time, whatever the others do, and stamps what comes back."""
