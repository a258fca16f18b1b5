"""Start, watch and end the processes of a deployment. The one room that knows Ray."""
