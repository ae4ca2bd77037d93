"""Merge overlapping intervals."""


def merge(intervals):
    merged = [intervals[0]]
    for start, end in sorted(intervals)[1:]:
        if start <= merged[-1][1]:
            merged[-1][1] = max(end, merged[-1][1])
        else:
            merged.append([start, end])
    return merged
