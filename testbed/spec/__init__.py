"""What a user writes: strict, frozen, refused with file and line where it is wrong."""
