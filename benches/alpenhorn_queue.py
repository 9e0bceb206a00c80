"""What the original of the fair queue does, 4 producers and 4 consumers over 64 keys: items a second, on one line.

`cargo bench --bench queue` runs it with `python3`, if alpenhorn is installed there, and compares.
"""

import threading
import time

ITEMS = 40_000


def main():
    try:
        from alpenhorn.scheduler.queue import FairMultiFIFOQueue
    except ImportError:
        print("skipped: alpenhorn is not installed (pip install --pre alpenhorn)")
        return
    queue = FairMultiFIFOQueue()

    def produce(number):
        for n in range(ITEMS // 4):
            queue.put(n, (n * 4 + number) % 64)

    def consume():
        for _ in range(ITEMS // 4):
            _, key = queue.get()
            queue.task_done(key)

    threads = [threading.Thread(target=produce, args=(number,)) for number in range(4)]
    threads += [threading.Thread(target=consume) for _ in range(4)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"{ITEMS / (time.perf_counter() - start):.0f}")


if __name__ == "__main__":
    main()
