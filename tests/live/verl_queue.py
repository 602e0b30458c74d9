# pyright: basic, reportMissingImports=false
# ruff: noqa: ANN001, ANN201
"""TransferQueue in memory, for `verl_job.py`: the real one is processes of Ray."""

from __future__ import annotations

from typing import Any


class Queue:
    """The functions of TransferQueue that verl calls, in memory."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, dict[str, Any]]] = {}
        self.tags: dict[str, dict[str, dict[str, Any]]] = {}

    def install(self) -> None:
        """Puts them in the place of the real ones, for all of verl."""
        import transfer_queue as tq

        tq.init = tq.close = lambda *_given, **_named: None
        for name in ("kv_put", "kv_batch_put", "kv_batch_get", "kv_list", "kv_clear"):
            setattr(tq, name, getattr(self, name))
        tq.async_kv_put = self.async_kv_put
        tq.async_kv_batch_put = self.async_kv_batch_put

    def kv_put(self, key, partition_id, fields=None, tag=None):
        self.kv_batch_put([key], partition_id, fields=fields, tags=[tag or {}])

    async def async_kv_put(self, key, partition_id, fields=None, tag=None):
        self.kv_put(key, partition_id, fields, tag)

    async def async_kv_batch_put(self, keys, partition_id, fields=None, tags=None):
        self.kv_batch_put(keys, partition_id, fields, tags)

    def kv_batch_put(self, keys, partition_id, fields=None, tags=None):
        from transfer_queue import KVBatchMeta

        rows, known = self.rows.setdefault(partition_id, {}), self.tags.setdefault(partition_id, {})
        for number, key in enumerate(keys):
            known.setdefault(key, {}).update(tags[number] if tags else {})
            row = rows.setdefault(key, {})
            if fields is not None:
                one = fields[number]
                row.update({name: one[name] for name in list(one.keys())})
        return KVBatchMeta(
            partition_id=partition_id, keys=list(keys), tags=[dict(known[key]) for key in keys]
        )

    def kv_batch_get(self, keys, partition_id, select_fields=None):
        from verl.utils.tensordict_utils import list_of_dict_to_tensordict

        rows = [self.rows[partition_id][key] for key in keys]
        shared = [name for name in rows[0] if all(name in row for row in rows)]
        wanted = [name for name in shared if select_fields is None or name in select_fields]
        return list_of_dict_to_tensordict([{name: row[name] for name in wanted} for row in rows])

    def kv_list(self, partition_id=None):
        return {name: dict(tags) for name, tags in self.tags.items() if partition_id in {None, name}}

    def kv_clear(self, keys, partition_id):
        for key in keys:
            self.rows[partition_id].pop(key, None)
            self.tags[partition_id].pop(key, None)
