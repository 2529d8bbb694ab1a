// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderTesting
import Testing

private typealias Operation = Linearizability.Operation

private func write(_ value: UInt64, _ start: UInt64, _ end: UInt64) -> Operation {
  Operation(.write, key: 1, value: value, start: start, end: end)
}

private func read(_ value: UInt64, _ start: UInt64, _ end: UInt64) -> Operation {
  Operation(.read, key: 1, value: value, start: start, end: end)
}

private func replace(_ old: UInt64, _ value: UInt64, _ start: UInt64, _ end: UInt64) -> Operation {
  Operation(.replacement, key: 1, value: value, old: old, start: start, end: end)
}

@Suite(.timeLimit(.minutes(60)))
struct LinearizabilityTests {
  struct Case: CustomTestStringConvertible, Sendable {
    let testDescription: String
    fileprivate let history: [Linearizability.Operation]
    var kind: Linearizability.Violation.Kind?
  }

  static let cases = [
    Case(testDescription: "nothing", history: []),
    Case(testDescription: "a write, then its read", history: [write(5, 1, 2), read(5, 3, 4)]),
    Case(
      testDescription: "a read of nothing before the first write",
      history: [read(0, 1, 2), write(5, 3, 4), read(5, 5, 6)]),
    Case(
      testDescription: "a read that overlaps a write sees either",
      history: [write(5, 1, 2), write(6, 3, 10), read(5, 4, 5), read(6, 6, 7), read(6, 11, 12)]),
    Case(
      testDescription: "a killed write that was read has happened",
      history: [write(5, 1, Linearizability.pending), read(0, 2, 3), read(5, 10, 11)]),
    Case(
      testDescription: "a killed write without a read is allowed",
      history: [write(5, 1, 2), write(6, 3, Linearizability.pending), read(5, 100, 101)]),
    Case(
      testDescription: "a killed read is no matter",
      history: [read(77, 1, Linearizability.pending)]),
    Case(
      testDescription: "operations that touch in one instant are concurrent",
      history: [write(5, 1, 3), read(0, 3, 4), write(6, 4, 5), read(5, 5, 6)]),
    Case(
      testDescription: "replacements that overlap, in the order of their values",
      history: [replace(0, 5, 1, 9), replace(5, 6, 2, 8), read(6, 3, 10), read(5, 2, 4)]),
    Case(
      testDescription: "a killed replacement that was read",
      history: [write(5, 1, 2), replace(0, 6, 3, Linearizability.pending), read(6, 5, 6)]),
    Case(
      testDescription: "two replacements of one value",
      history: [write(5, 1, 2), replace(5, 6, 3, 9), replace(5, 7, 3, 9)], kind: .lostUpdate),
    Case(
      testDescription: "a replacement of a value that was replaced before",
      history: [write(5, 1, 2), write(6, 3, 4), replace(5, 7, 6, 9)],
      kind: .contradiction),
    Case(
      testDescription: "a replaced value is read after the replacement",
      history: [write(5, 1, 2), replace(5, 6, 3, 4), read(5, 5, 6)], kind: .contradiction),
    Case(
      testDescription: "a replacement of a value that replaces it",
      history: [replace(6, 5, 1, 9), replace(5, 6, 1, 9)], kind: .contradiction),
    Case(
      testDescription: "a stale read",
      history: [write(5, 1, 2), write(6, 3, 4), read(5, 5, 6)], kind: .contradiction),
    Case(
      testDescription: "a lost write",
      history: [write(5, 1, 2), read(0, 3, 4)], kind: .contradiction),
    Case(
      testDescription: "a lost write at time zero",
      history: [write(5, 0, 0), read(0, 1, 1)], kind: .contradiction),
    Case(
      testDescription: "new, then old",
      history: [
        write(5, 1, 2), write(6, 3, 20), read(6, 4, 5), read(5, 6, 7),
      ], kind: .contradiction),
    Case(
      testDescription: "a killed write that comes and goes",
      history: [
        write(5, 1, 2), write(6, 3, Linearizability.pending), read(6, 4, 5), read(5, 6, 7),
      ], kind: .contradiction),
    Case(
      testDescription: "two readers disagree on the order of two writes",
      history: [
        write(5, 1, 20), write(6, 1, 20), read(5, 2, 3), read(6, 4, 5), read(5, 6, 7),
      ], kind: .contradiction),
    Case(
      testDescription: "a write that is nowhere between two reads of another",
      history: [write(5, 1, 2), read(5, 3, 4), write(6, 5, 6), read(5, 7, 8)],
      kind: .contradiction),
    Case(
      testDescription: "a value from nowhere",
      history: [write(5, 1, 2), read(7, 3, 4)], kind: .unwritten),
    Case(
      testDescription: "a value from the future",
      history: [read(5, 1, 2), write(5, 3, 4)], kind: .readBeforeWrite),
    Case(
      testDescription: "two writes of one value",
      history: [write(5, 1, 2), write(5, 3, 4)], kind: .malformed),
    Case(
      testDescription: "a write of the initial value", history: [write(0, 1, 2)], kind: .malformed),
    Case(testDescription: "an end before its start", history: [write(5, 3, 2)], kind: .malformed),
  ]

  @Test(arguments: cases)
  func `A known history gets the right verdict`(case: Case) {
    let found = Linearizability.violations(in: `case`.history)
    #expect(found.map(\.kind) == (`case`.kind.map { [$0] } ?? []))
    if `case`.kind == .malformed { return }
    let searched = Linearizability.violations(searching: `case`.history)
    #expect(searched.isEmpty == found.isEmpty, "the search found \(searched)")
  }

  @Test func `Keys have nothing to do with each other, and the wrong one is named`() throws {
    var history = (1...100).map { write($0, $0 * 2, $0 * 2 + 1) }
    for index in history.indices { history[index].key = UInt64(index) }
    #expect(Linearizability.violations(in: history) == [])
    history.append(Operation(.read, key: 42, value: 0, start: 1000, end: 1001))
    let violation = try #require(Linearizability.violations(in: history).first)
    #expect(violation.key == 42)
    #expect(violation.description.hasPrefix("Key 42: "))
  }

  @Test func `Random small histories get the verdict of trying all orders`() {
    var accepted = 0
    var rejected = 0
    for trial in Seed.announce().trials(3000) {
      var random = trial.generator()
      let history = randomHistory(using: &random)
      let expected = hasValidOrder(history)
      if expected { accepted += 1 } else { rejected += 1 }
      let found = Linearizability.violations(in: history)
      #expect(found.isEmpty == expected, "\(trial): \(history) gave \(found)")
      let searched = Linearizability.violations(searching: history)
      #expect(searched.isEmpty == expected, "\(trial): \(history) gave \(searched)")
    }
    // Judging only one kind would prove nothing.
    #expect(accepted > 300 && rejected > 300)
  }

  @Test func `A long true history is accepted, and one bent read in it is found`() {
    let seed = Seed.announce()
    var random = seed.generator()
    var history: [Operation] = []
    var current: UInt64 = 0
    var replaced: [UInt64] = []
    for step in 1...50_000 as ClosedRange<UInt64> {
      // An operation at time 100 × step is recorded as an interval around it.
      let start = step * 100 - UInt64.random(in: 0...1000, using: &random).clamped(to: step * 100)
      let end = step * 100 + UInt64.random(in: 0...1000, using: &random)
      if random.chance(30) {
        replaced.append(current)
        current = step
        history.append(write(step, start, end))
      } else {
        history.append(read(current, start, end))
      }
    }
    #expect(Linearizability.violations(in: history) == [], "\(seed)")
    let old = replaced[replaced.count / 2]
    history.append(read(old, 10_000_000, 10_000_001))
    #expect(!Linearizability.violations(in: history).isEmpty, "\(seed)")
  }

  @Test
  func `Random small histories with counts and removals get the verdict of trying all orders`() {
    var accepted = 0
    var rejected = 0
    for trial in Seed.announce().trials(4000) {
      var random = trial.generator()
      let history = randomChanges(using: &random)
      let expected = hasValidOrder(history)
      if expected { accepted += 1 } else { rejected += 1 }
      let found = Linearizability.violations(searching: history)
      #expect(found.isEmpty == expected, "\(trial): \(history) gave \(found)")
    }
    #expect(accepted > 400 && rejected > 400)
  }

  @Test func `A long history with killed processes is accepted, and one lost increment is found`() {
    let seed = Seed.announce()
    var random = seed.generator()
    var history: [Operation] = []
    var current: UInt64 = 0
    for step in 1...3000 as ClosedRange<UInt64> {
      let start = step * 100 - UInt64.random(in: 0...300, using: &random).clamped(to: step * 100)
      var end = step * 100 + UInt64.random(in: 0...300, using: &random)
      let isKilled = random.chance(1)
      if isKilled { end = Linearizability.pending }
      let old = current
      let kind = [Operation.Kind.read, .increment, .replacement].randomElement(using: &random)!
      var value: UInt64 = kind == .increment ? 1 : 0
      switch kind {
      case .read: value = current
      case .increment: current += 1
      default:
        value = random.chance(30) ? step << 20 : 0
        current = value
      }
      // Half of the killed operations had no effect.
      if isKilled, random.chance(50) { current = old }
      history.append(Operation(kind, key: 1, value: value, old: old, start: start, end: end))
    }
    #expect(Linearizability.violations(searching: history) == [], "\(seed)")
    let last = history.last!
    let time = last.start + 1000
    history += [
      Operation(.write, key: 1, value: 7 << 40, start: time, end: time + 1),
      Operation(.increment, key: 1, value: 1, old: 7 << 40, start: time + 2, end: time + 9),
      Operation(.increment, key: 1, value: 1, old: 7 << 40, start: time + 2, end: time + 9),
    ]
    let found = Linearizability.violations(searching: history)
    #expect(found.map(\.kind) == [.contradiction], "\(seed): \(found)")
  }

  private func randomChanges(using random: inout SeededRandom) -> [Operation] {
    (0..<Int.random(in: 1...6, using: &random)).map { _ in
      let start = UInt64.random(in: 0...12, using: &random)
      let length = UInt64.random(in: 0...8, using: &random)
      let end = random.chance(20) ? Linearizability.pending : start + length
      let kind = [Operation.Kind.write, .read, .replacement, .increment]
        .randomElement(using: &random)!
      return Operation(
        kind, key: 1, value: UInt64.random(in: kind == .increment ? 1...2 : 0...2, using: &random),
        old: UInt64.random(in: 0...2, using: &random), start: start, end: end)
    }
  }

  private func randomHistory(using random: inout SeededRandom) -> [Operation] {
    let count = Int.random(in: 1...7, using: &random)
    let writes = Int.random(in: 0...min(4, count), using: &random)
    return (0..<count).map { index in
      let start = UInt64.random(in: 0...12, using: &random)
      let length = UInt64.random(in: 0...8, using: &random)
      let end = random.chance(10) ? Linearizability.pending : start + length
      if index < writes { return write(UInt64(index + 1), start, end) }
      return read(UInt64.random(in: 0...UInt64(writes), using: &random), start, end)
    }
  }

  /// Tries all orders: next may be whatever nothing left over has ended before.
  private func hasValidOrder(_ history: [Operation], after value: UInt64 = 0) -> Bool {
    if history.allSatisfy({ $0.end == Linearizability.pending }) { return true }
    for (index, next) in history.enumerated() {
      if next.kind == .read && next.end == Linearizability.pending { continue }
      if next.kind == .read && next.value != value { continue }
      let changes = next.kind == .replacement || next.kind == .increment
      if changes && next.end != Linearizability.pending && next.old != value { continue }
      if history.contains(where: { $0.end < next.start }) { continue }
      var rest = history
      rest.remove(at: index)
      let result =
        switch next.kind {
        case .read: value
        case .increment: value + next.value
        case .write, .replacement: next.value
        }
      if hasValidOrder(rest, after: result) { return true }
    }
    return false
  }
}

extension UInt64 {
  fileprivate func clamped(to limit: UInt64) -> UInt64 { self > limit ? limit : self }
}
