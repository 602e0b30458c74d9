"""Evidence for other programs: annotated PDF files, W3C Web Annotations and pictures."""
