"""Speed beside what one would use instead, and studies of quality and safety."""
