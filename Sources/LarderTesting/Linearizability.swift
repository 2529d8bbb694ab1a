// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Is there an order of all operations on a key in which every read returns what was written last,
// and which nobody who watched the clock could dispute? In general that is NP-complete; with values
// written only once it is not (Gibbons and Korach, "Testing Shared Memories", 1997).
//
// Operation A comes before B if A ended before B started; otherwise their order is free. The write of
// a value and its reads form a cluster, and a cluster stands undivided in any valid order. With
//
//     f = the earliest end in the cluster        s = the latest start in the cluster
//
// cluster 1 cannot come after cluster 2 if f1 < s2: something of 1 had ended when something of 2
// started. So 1 and 2 contradict each other iff f1 < s2 and f2 < s1. A cluster with f < s must hold
// the key throughout [f, s]: a forward zone. All others have some moment in [s, f] to themselves: a
// backward zone. Two forward zones contradict each other if they overlap, a backward zone contradicts
// a forward zone that contains it, backward zones never contradict each other, and there is no longer
// cycle without one of two. Sorting finds all of that in O(n log n).
//
// The time is one host's CLOCK_MONOTONIC, which all its processes share.

/// A checker of histories of registers: of what processes wrote and read, and when.
///
/// It answers whether all of them could have used one register that knows no delay: nobody read
/// what was replaced before the read began, and nobody read what was not written. ``HistoryLog``
/// keeps histories that survive their process.
public enum Linearizability {
  /// What a read returns of a key that nobody has written. No write may write it.
  public static let initialValue: UInt64 = 0

  /// The end of an operation nobody has seen ending, because its process was killed.
  public static let pending = UInt64.max

  /// One operation on one key.
  public struct Operation: Hashable, Sendable {
    /// What an operation does.
    public enum Kind: UInt8, Sendable {
      /// A write of a value.
      case write
      /// A read that returned a value.
      case read
    }

    /// The register's name.
    public var key: UInt64
    /// What was done with it.
    public var kind: Kind
    /// What was written or read. No two writes of a key write the same, so removes write a value
    /// of their own that stands for "nothing".
    public var value: UInt64
    /// Nanoseconds, taken before the operation began.
    public var start: UInt64
    /// Nanoseconds, taken after it ended; ``Linearizability/pending`` if it may still take effect.
    public var end: UInt64

    /// An operation, with times of ``Linearizability/now()``.
    public init(_ kind: Kind, key: UInt64, value: UInt64, start: UInt64, end: UInt64) {
      self.key = key
      self.kind = kind
      self.value = value
      self.start = start
      self.end = end
    }
  }

  /// Why a history has no valid order.
  public struct Violation: Hashable, Sendable, CustomStringConvertible {
    /// What kind of contradiction it is.
    public enum Kind: Hashable, Sendable {
      /// A value was read that nobody ever wrote.
      case unwritten
      /// A value was read before its write began.
      case readBeforeWrite
      /// Two values were each seen before and after the other, or one that had been replaced
      /// already was read: stale reads end up here.
      case contradiction
      /// The history itself is wrong: two writes of one value, a write of the initial value, an
      /// end before a start.
      case malformed
    }

    /// What kind of contradiction it is.
    public let kind: Kind
    /// The register concerned.
    public let key: UInt64
    /// What was read or written when, in a sentence.
    public let description: String
  }

  /// Everything that contradicts a valid order of `history`, or `[]` if it is linearizable.
  ///
  /// Pending reads say nothing. A pending write that nobody read may have happened or not.
  ///
  /// - Complexity: O(*n* log *n*).
  public static func violations(in history: [Operation]) -> [Violation] {
    // Grouped by key, then by value, the write first.
    let operations = history.filter { $0.kind == .write || $0.end != pending }.sorted {
      if $0.key != $1.key { return $0.key < $1.key }
      if $0.value != $1.value { return $0.value < $1.value }
      return $0.kind.rawValue < $1.kind.rawValue
    }
    var violations: [Violation] = []
    var zones: [Zone] = []
    var index = 0
    while index < operations.count {
      let first = operations[index]
      var end = index + 1
      while end < operations.count && operations[end].key == first.key
        && operations[end].value == first.value
      {
        end += 1
      }
      let cluster = operations[index..<end]
      if let zone = Zone(cluster, &violations) { zones.append(zone) }
      if end == operations.count || operations[end].key != first.key {
        appendContradictions(of: zones, key: first.key, to: &violations)
        zones.removeAll(keepingCapacity: true)
      }
      index = end
    }
    return violations
  }

  /// The time that goes into a history: nanoseconds, the same for all processes of a machine.
  public static func now() -> UInt64 { POSIX.monotonicNanoseconds() }

  // MARK: - Zones

  private struct Zone {
    let value: UInt64
    /// The earliest end and the latest start, each later by one than measured: zero is when the
    /// initial value was written.
    var firstEnd = UInt64.max
    var lastStart: UInt64 = 0

    var isForward: Bool { firstEnd < lastStart }

    /// The zone of a cluster, or `nil` if it has none: it is wrong in itself, or may not exist.
    init?(_ cluster: ArraySlice<Operation>, _ violations: inout [Violation]) {
      let first = cluster[cluster.startIndex]
      value = first.value
      func report(_ kind: Violation.Kind, _ text: String) {
        violations.append(
          Violation(kind: kind, key: first.key, description: "Key \(first.key): \(text)"))
      }
      if let wrong = cluster.first(where: { $0.end < $0.start }) {
        report(.malformed, "an operation ends before it starts: \(wrong).")
        return nil
      }
      let writes = cluster.prefix { $0.kind == .write }
      if value == initialValue {
        if !writes.isEmpty {
          report(.malformed, "the initial value \(value) was written.")
          return nil
        }
        firstEnd = 0
      } else if writes.isEmpty {
        report(.unwritten, "\(value) was read at \(first.start) and never written.")
        return nil
      } else if writes.count > 1 {
        report(.malformed, "\(value) was written \(writes.count) times.")
        return nil
      } else if let early = cluster.first(where: { $0.end < first.start }) {
        report(
          .readBeforeWrite,
          "\(value) was read by \(early.end), before its write began at \(first.start).")
        return nil
      } else if cluster.count == 1 && first.end == pending {
        return nil
      }
      for operation in cluster {
        let end = operation.end == pending ? pending : operation.end + 1
        firstEnd = min(firstEnd, end)
        lastStart = max(lastStart, operation.start + 1)
      }
    }
  }

  private static func appendContradictions(
    of zones: [Zone], key: UInt64, to violations: inout [Violation]
  ) {
    func report(_ one: Zone, _ other: Zone) {
      violations.append(
        Violation(
          kind: .contradiction, key: key,
          description: """
            Key \(key): \(one.value) was there by \(one.firstEnd) and still read at \
            \(one.lastStart), but \(other.value) was there by \(other.firstEnd) and had begun, \
            or was read, at \(other.lastStart). Each is newer than the other.
            """))
    }
    let forward = zones.filter(\.isForward).sorted { $0.firstEnd < $1.firstEnd }
    // reach[n]: which of the zones 0...n extends furthest.
    var reach: [Int] = []
    reach.reserveCapacity(forward.count)
    for (index, zone) in forward.enumerated() {
      guard let last = reach.last else {
        reach.append(index)
        continue
      }
      if zone.firstEnd < forward[last].lastStart { report(forward[last], zone) }
      reach.append(forward[last].lastStart < zone.lastStart ? index : last)
    }
    for zone in zones where !zone.isForward {
      // Of the forward zones that begin before this one does, the furthest.
      let count = forward.partitioningIndex { $0.firstEnd >= zone.lastStart }
      if count == 0 { continue }
      let candidate = forward[reach[count - 1]]
      if zone.firstEnd < candidate.lastStart { report(candidate, zone) }
    }
  }
}

extension Array {
  /// The first index whose element satisfies a predicate that all later ones satisfy too.
  fileprivate func partitioningIndex(_ isInLaterPart: (Element) -> Bool) -> Int {
    var low = 0
    var high = count
    while low < high {
      let middle = (low + high) / 2
      if isInLaterPart(self[middle]) { high = middle } else { low = middle + 1 }
    }
    return low
  }
}
