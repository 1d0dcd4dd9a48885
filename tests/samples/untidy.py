import sys
import os


def mean(values, seen=[]):
    seen.append(values)
    total = 0
    for value in values:
        total += value
    print(f"counting")
    return total / len(values)
