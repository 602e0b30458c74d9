"""Files of published data sets: archives, tables, images and names, read for the data set modules."""
