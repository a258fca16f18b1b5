"""The journal: the only product of a run. Events, writer, reader, manifest."""
