// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// A history is linearizable if all operations on a key have an order in which every read returns the
// last written value, and which agrees with their times. In general the check is NP-complete; if each
// value is written only once it is not (Gibbons and Korach, "Testing Shared Memories", 1997).
//
// Operation A comes before B if A ended before B started; otherwise their order is free. The write of
// a value and its reads form a cluster, and a cluster is contiguous in any valid order. With
//
//     f = the earliest end in the cluster        s = the latest start in the cluster
//
// cluster 1 cannot come after cluster 2 if f1 < s2: an operation of 1 had ended when one of 2 started.
// So 1 and 2 contradict each other iff f1 < s2 and f2 < s1. A cluster with f < s must hold
// the key throughout [f, s]: a forward zone. All others can be placed at one time in [s, f]: a
// backward zone. Two forward zones contradict each other if they overlap, a backward zone contradicts
// a forward zone that contains it, and backward zones do not contradict each other. A longer cycle
// contains a cycle of two. Sorting finds all of that in O(n log n).
//
// A replacement reads one value and writes another in one step. It belongs to the clusters of both, and
// the second cluster comes immediately after the first. So clusters that replacements connect form a
// chain, which is contiguous as a cluster is: the zones above are those of chains. Within a chain the
// order is known, and no operation of a cluster may have ended before one of an earlier cluster began.
// Two replacements of one value contradict each other: one of them is a lost update.
//
// The time is one host's CLOCK_MONOTONIC, which all its processes share.

/// A checker of histories of registers: the reads and writes of several processes with their times.
///
/// It determines whether one register without delay could produce the history: no read returned a
/// value that was replaced before the read began, or one that was never written. ``HistoryLog``
/// records histories that survive their process.
public enum Linearizability {
  /// The value that a read returns of a key without a write. No write may store it.
  public static let initialValue: UInt64 = 0

  /// The end of an operation whose end is unknown because its process was killed.
  public static let pending = UInt64.max

  /// One operation on one key.
  public struct Operation: Hashable, Sendable {
    /// The kind of an operation.
    public enum Kind: UInt8, Sendable {
      /// A write of a value.
      case write
      /// A read that returned a value.
      case read
      /// A replacement of ``Operation/old`` by a value, in one step.
      case replacement
      /// An addition of a value to ``Operation/old``, in one step. Its results repeat, so only
      /// ``violations(searching:)`` accepts it.
      case increment
    }

    /// The name of the register.
    public var key: UInt64
    /// The kind of the operation.
    public var kind: Kind
    /// The value written, read or added. For ``violations(in:)`` all writes of a key write different
    /// values.
    public var value: UInt64
    /// The value that a replacement or an increment read.
    public var old: UInt64
    /// The time before the operation began, in nanoseconds.
    public var start: UInt64
    /// The time after it ended, in nanoseconds; ``Linearizability/pending`` if it may still take
    /// effect.
    public var end: UInt64

    /// Creates an operation, with times of ``Linearizability/now()``.
    public init(
      _ kind: Kind, key: UInt64, value: UInt64, old: UInt64 = initialValue, start: UInt64,
      end: UInt64
    ) {
      self.key = key
      self.kind = kind
      self.value = value
      self.old = old
      self.start = start
      self.end = end
    }
  }

  /// A contradiction in a history.
  public struct Violation: Hashable, Sendable, CustomStringConvertible {
    /// The kind of the contradiction.
    public enum Kind: Hashable, Sendable {
      /// A value was read that was never written.
      case unwritten
      /// A value was read before its write began.
      case readBeforeWrite
      /// Two values were each read before and after the other, or a replaced value was read. A stale
      /// read is of this kind.
      case contradiction
      /// Two replacements read the same value: the effect of one was lost.
      case lostUpdate
      /// The history is invalid: two writes of one value, a write of the initial value, an increment, or
      /// an end before a start.
      case malformed
      /// The search for an order was not finished.
      case undecided
    }

    /// The kind of the contradiction.
    public let kind: Kind
    /// The name of the register.
    public let key: UInt64
    /// The contradicting operations with their times, in a sentence.
    public let description: String
  }

  /// Returns all contradictions in a history, or an empty array if it is linearizable. No two writes of a
  /// key write the same value; for other histories see ``violations(searching:)``.
  ///
  /// Pending reads are ignored. A pending write whose value no operation read may or may not have
  /// taken effect. Of a pending replacement it is not known what it read: it counts as a write.
  ///
  /// - Complexity: O(*n* log *n*).
  public static func violations(in history: [Operation]) -> [Violation] {
    // Grouped by key, then by value, the write first.
    let operations = history.flatMap(parts).sorted {
      if $0.key != $1.key { return $0.key < $1.key }
      if $0.value != $1.value { return $0.value < $1.value }
      return $0.kind.rawValue < $1.kind.rawValue
    }
    let successors = Dictionary(
      grouping: history.filter { $0.kind == .replacement && $0.end != pending }, by: \.key)
    var violations = history.filter { $0.kind == .increment }.prefix(1).map {
      Violation(kind: .malformed, key: $0.key, description: "Key \($0.key): \($0) is an increment.")
    }
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
        let chains = chains(of: zones, successors[first.key] ?? [], &violations)
        appendContradictions(of: chains, key: first.key, to: &violations)
        zones.removeAll(keepingCapacity: true)
      }
      index = end
    }
    return violations
  }

  /// Returns the time for a history, in nanoseconds; all processes of a machine share it.
  public static func now() -> UInt64 { POSIX.monotonicNanoseconds() }

  /// Returns an operation as writes and reads of one value each.
  private static func parts(_ operation: Operation) -> [Operation] {
    switch operation.kind {
    case .read: return operation.end == pending ? [] : [operation]
    case .write: return [operation]
    case .increment: return []
    case .replacement:
      var (write, read) = (operation, operation)
      write.kind = .write
      if operation.end == pending { return [write] }
      read.kind = .read
      read.value = operation.old
      return [write, read]
    }
  }

  // MARK: - Chains

  /// Returns the zones of the chains that the replacements of a key form of its clusters.
  private static func chains(
    of zones: [Zone], _ replacements: [Operation], _ violations: inout [Violation]
  ) -> [Zone] {
    if replacements.isEmpty { return zones }
    var rest = Dictionary(uniqueKeysWithValues: zones.map { ($0.value, $0) })
    var next: [UInt64: UInt64] = [:]
    var isSuccessor: Set<UInt64> = []
    for replacement in replacements {
      if let other = next[replacement.old] {
        violations.append(
          Violation(
            kind: .lostUpdate, key: replacement.key,
            description: "Key \(replacement.key): \(other) and \(replacement.value) both replaced "
              + "\(replacement.old)."))
        continue
      }
      next[replacement.old] = replacement.value
      isSuccessor.insert(replacement.value)
    }
    var chains: [Zone] = []
    for zone in zones where !isSuccessor.contains(zone.value) {
      guard var chain = rest.removeValue(forKey: zone.value) else { continue }
      var value = zone.value
      while let following = next[value], let link = rest.removeValue(forKey: following) {
        if link.firstEnd < chain.lastStart {
          violations.append(
            Violation(
              kind: .contradiction, key: replacements[0].key,
              description: "Key \(replacements[0].key): \(following) replaced \(value) and was "
                + "there by \(link.firstEnd), but an earlier value was still read at "
                + "\(chain.lastStart)."))
        }
        chain.firstEnd = min(chain.firstEnd, link.firstEnd)
        chain.lastStart = max(chain.lastStart, link.lastStart)
        value = following
      }
      chains.append(chain)
    }
    if let circular = rest.values.first {
      violations.append(
        Violation(
          kind: .contradiction, key: replacements[0].key,
          description: "Key \(replacements[0].key): replacements lead from \(circular.value) back "
            + "to it."))
    }
    return chains
  }

  // MARK: - Zones

  private struct Zone {
    let value: UInt64
    /// The earliest end and the latest start, each one more than measured: the initial value is
    /// written at zero.
    var firstEnd = UInt64.max
    var lastStart: UInt64 = 0

    var isForward: Bool { firstEnd < lastStart }

    /// Creates the zone of a cluster, or `nil` if the cluster is invalid or may not exist.
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
    // reach[n]: the index of the zone among 0...n that extends furthest.
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
      // The forward zone that extends furthest among those that begin before this one.
      let count = forward.partitioningIndex { $0.firstEnd >= zone.lastStart }
      if count == 0 { continue }
      let candidate = forward[reach[count - 1]]
      if zone.firstEnd < candidate.lastStart { report(candidate, zone) }
    }
  }
}

extension Array {
  /// Returns the first index whose element satisfies a predicate that all later elements satisfy.
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
