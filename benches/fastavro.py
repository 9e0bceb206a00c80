"""What fastavro costs for one packet: `python3 benches/fastavro.py PACKET.avro`.

`cargo bench --bench decode` runs it on its packets and makes the two gates of its figures: cached / full flat decode at
least 80, container reader / header alone at least 100.
"""

import io
import statistics
import sys
import time

# This file's folder comes first on the path, where this file itself would be `fastavro`.
sys.path.pop(0)


def median_us(run, rounds=101):
    """Gives the median time of one call, in microseconds."""
    run()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def main():
    try:
        import fastavro
        from fastavro._read_common import SchemaResolutionError  # noqa: F401  (the compiled reader is there)
    except ImportError:
        print("skipped: fastavro is not installed (pip install fastavro)")
        return
    payload = open(sys.argv[1], "rb").read()
    reader = fastavro.reader(io.BytesIO(payload))
    schema = fastavro.parse_schema(reader.writer_schema)
    record = next(reader)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, record)
    datum = out.getvalue()
    cached = median_us(lambda: fastavro.schemaless_reader(io.BytesIO(datum), schema))
    whole = median_us(lambda: next(fastavro.reader(io.BytesIO(payload))))
    print(f"fastavro {fastavro.__version__}, {len(payload)} bytes")
    print(f"cached schema, bare datum   {cached:9.1f} us")
    print(f"container reader            {whole:9.1f} us")


if __name__ == "__main__":
    main()
