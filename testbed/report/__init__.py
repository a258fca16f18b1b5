"""A run as a document: figures and text from metrics, bounds and checks. Nothing here measures or decides."""

from testbed.report.document import Report, build

__all__ = ["Report", "build"]
