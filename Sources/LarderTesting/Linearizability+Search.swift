// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Counters and removals write the same values again and again, so the zones of `Linearizability.swift` do
// not exist. This check searches for an order instead (Wing and Gong, "Testing and Verifying Concurrent
// Objects", 1993; Lowe, "Testing for Linearizability", 2017): it places one operation after the other that
// no unplaced operation precedes and that agrees with the value so far, and goes back if there is none. A
// set of operations that was placed with the same value before is not tried again. So the search is linear
// in the history as long as few operations overlap.
//
// A pending operation never ends, so it overlaps all that follow. Three rules keep the search small:
//
//   1. It is tried last, where no other operation fits: most never took effect.
//   2. Of those with the same effect only the one that began first is tried. They are interchangeable.
//   3. A write is not placed directly after another pending operation, whose effect it would hide, and
//      never if no operation has seen its value and none has added to it.

extension Linearizability {
  /// The most sets of operations that a search tries for one key.
  private static let searchLimit = 20_000_000

  /// Searches for an order of a history whose values repeat, such as that of a counter or of a key that is
  /// removed.
  ///
  /// A removal is a write of ``initialValue``, and taking a value is a replacement by it. An operation of
  /// the kind ``Operation/Kind/increment`` adds ``Operation/value`` to ``Operation/old``.
  ///
  /// - Returns: At most one violation for each key: the first operation that has no place in any order.
  ///   A search that exceeds its limit is a violation of the kind ``Violation/Kind/undecided``.
  /// - Complexity: O(*n* log *n*) while few operations overlap, exponential in their number.
  public static func violations(searching history: [Operation]) -> [Violation] {
    Dictionary(grouping: history, by: \.key).sorted { $0.key < $1.key }.compactMap {
      var search = Search($0.value)
      return search.run()
    }
  }

  /// The search for one key.
  private struct Search {
    /// The operations that have ended, by their start.
    private let ended: [Operation]
    /// Pending operations; those of one array have the same effect, by their start.
    private let pending: [[Operation]]
    /// The events of operations that are not placed: the start of `ended[n]` is `2n`, its end `2n + 1`.
    private var links: Links
    private var used: [Int]
    private var value = initialValue
    private var placed = Fingerprint()
    private var steps: [Step] = []
    private var visited: Set<Visited> = []
    /// The operation whose end stopped the longest order.
    private var longest = (count: -1, stop: 0, value: initialValue)

    private struct Step {
      let choice: Choice
      let value: UInt64
      let placed: Fingerprint
    }

    private enum Choice {
      case ended(Int)
      case pending(Int)
    }

    private struct Visited: Hashable {
      let placed: Fingerprint
      let value: UInt64
    }

    init(_ history: [Operation]) {
      ended = history.filter { $0.end != Linearizability.pending }.sorted { $0.start < $1.start }
      var seen: Set<UInt64> = [initialValue]
      for operation in ended {
        seen.insert(operation.kind == .read ? operation.value : operation.old)
      }
      let hasIncrements = history.contains {
        $0.kind == .increment && $0.end == Linearizability.pending
      }
      let open = history.filter {
        $0.end == Linearizability.pending && $0.kind != .read
          && (hasIncrements || seen.contains($0.value))
      }
      let classes = Dictionary(grouping: open) { Effect(adds: $0.kind == .increment, $0.value) }
      pending = classes.values.map { $0.sorted { $0.start < $1.start } }
        .sorted { $0[0].start < $1[0].start }
      used = Array(repeating: 0, count: pending.count)
      links = Links(of: ended)
    }

    private struct Effect: Hashable {
      let adds: Bool
      let value: UInt64
      init(adds: Bool, _ value: UInt64) {
        self.adds = adds
        self.value = value
      }
    }

    mutating func run() -> Violation? {
      if let wrong = ended.first(where: { $0.end < $0.start }) {
        return violation(.malformed, of: wrong, "ends before it starts: \(wrong).")
      }
      var event = links.first
      // The first of the pending choices to try at an end.
      var choice = 0
      while let current = event {
        if current % 2 == 0 {
          event = place(.ended(current / 2)) ? links.first : links.after(current)
          continue
        }
        if steps.count > longest.count { longest = (steps.count, current / 2, value) }
        if visited.count > searchLimit { return undecided() }
        if let chosen = firstFitting(from: choice, before: ended[current / 2].end) {
          choice = place(.pending(chosen)) ? 0 : chosen + 1
          if choice == 0 { event = links.first }
          continue
        }
        guard let step = goBack() else { return contradiction() }
        switch step.choice {
        case .ended(let index): (event, choice) = (links.after(2 * index), 0)
        case .pending(let index): (event, choice) = (links.firstEnd(), index + 1)
        }
      }
      return nil
    }

    /// Places an operation, if it agrees with the value and leads to a set that was not tried.
    private mutating func place(_ choice: Choice) -> Bool {
      let operation: Operation
      var fingerprint = placed
      switch choice {
      case .ended(let index):
        operation = ended[index]
        fingerprint.add(2 * UInt64(index))
      case .pending(let index):
        operation = pending[index][used[index]]
        fingerprint.add(UInt64(index) << 32 | 2 * UInt64(used[index]) + 1)
      }
      guard let result = operation.result(from: value),
        visited.insert(Visited(placed: fingerprint, value: result)).inserted
      else { return false }
      steps.append(Step(choice: choice, value: value, placed: placed))
      (value, placed) = (result, fingerprint)
      switch choice {
      case .ended(let index): links.remove(index)
      case .pending(let index): used[index] += 1
      }
      return true
    }

    private mutating func goBack() -> Step? {
      guard let step = steps.popLast() else { return nil }
      (value, placed) = (step.value, step.placed)
      switch step.choice {
      case .ended(let index): links.restore(index)
      case .pending(let index): used[index] -= 1
      }
      return step
    }

    /// Returns the first pending choice that began before a time and that rule 3 does not exclude.
    private func firstFitting(from first: Int, before time: UInt64) -> Int? {
      var onlyIncrements = false
      if case .pending = steps.last?.choice { onlyIncrements = true }
      return (first..<pending.count).first { index in
        guard used[index] < pending[index].count else { return false }
        let operation = pending[index][used[index]]
        return operation.start <= time && (!onlyIncrements || operation.kind == .increment)
      }
    }

    // MARK: Results

    private func contradiction() -> Violation {
      let stop = ended[longest.stop]
      return violation(
        .contradiction, of: stop,
        "no order of the operations has a place for \(stop.kind) of \(stop.value) (old \(stop.old)) from "
          + "\(stop.start) to \(stop.end). After \(longest.count) operations the value is "
          + "\(longest.value).")
    }

    private func undecided() -> Violation {
      violation(
        .undecided, of: ended[longest.stop],
        "the search ended after \(visited.count) sets of \(ended.count) operations. Record fewer "
          + "operations that overlap.")
    }

    private func violation(
      _ kind: Violation.Kind, of operation: Operation, _ text: String
    ) -> Violation {
      Violation(kind: kind, key: operation.key, description: "Key \(operation.key): \(text)")
    }
  }

  /// The events of operations by time, in a list from which operations are removed and to which they
  /// return in the opposite order.
  private struct Links {
    /// The event after each event; the last element is the beginning of the list.
    private var following: [Int]
    private var preceding: [Int]
    private var anchor: Int { following.count - 1 }

    init(of operations: [Operation]) {
      // Events at the same time overlap, so starts come first.
      let order = (0..<2 * operations.count).sorted { one, other in
        func time(_ event: Int) -> UInt64 {
          event % 2 == 0 ? operations[event / 2].start : operations[event / 2].end
        }
        return (time(one), one % 2, one) < (time(other), other % 2, other)
      }
      following = Array(repeating: 0, count: order.count + 1)
      preceding = following
      var last = order.count
      for event in order {
        following[last] = event
        preceding[event] = last
        last = event
      }
      following[last] = order.count
      preceding[order.count] = last
    }

    var first: Int? { after(anchor) }

    func after(_ event: Int) -> Int? {
      following[event] == anchor ? nil : following[event]
    }

    /// Returns the first end.
    func firstEnd() -> Int? {
      var event = first
      while let current = event, current % 2 == 0 { event = after(current) }
      return event
    }

    mutating func remove(_ operation: Int) {
      for event in [2 * operation, 2 * operation + 1] {
        following[preceding[event]] = following[event]
        preceding[following[event]] = preceding[event]
      }
    }

    mutating func restore(_ operation: Int) {
      for event in [2 * operation + 1, 2 * operation] {
        following[preceding[event]] = event
        preceding[following[event]] = event
      }
    }
  }

  /// A set of operations in 128 bits. Two sets have the same one with a probability of 2^-128.
  private struct Fingerprint: Hashable {
    private var low: UInt64 = 0
    private var high: UInt64 = 0

    mutating func add(_ element: UInt64) {
      low ^= Self.mixed(element &* 2)
      high ^= Self.mixed(element &* 2 &+ 1)
    }

    /// The output function of SplitMix64.
    private static func mixed(_ seed: UInt64) -> UInt64 {
      var bits = seed &* 0x9e37_79b9_7f4a_7c15 &+ 0x9e37_79b9_7f4a_7c15
      bits = (bits ^ bits >> 30) &* 0xbf58_476d_1ce4_e5b9
      bits = (bits ^ bits >> 27) &* 0x94d0_49bb_1331_11eb
      return bits ^ bits >> 31
    }
  }
}

extension Linearizability.Operation {
  /// Returns the value after the operation, or `nil` if it does not agree with the value before.
  fileprivate func result(from before: UInt64) -> UInt64? {
    let isPending = end == Linearizability.pending
    switch kind {
    case .read: return before == value ? before : nil
    case .write: return value
    case .replacement: return isPending || before == old ? value : nil
    case .increment: return isPending || before == old ? before &+ value : nil
    }
  }
}
