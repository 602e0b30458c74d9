"""The durable tables of a collection: schema, LanceDB, copies in Arrow, and the catalog in memory."""
