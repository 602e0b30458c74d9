"""LibreOffice: the profile and the program that it prints by, and what it stores of a document."""
