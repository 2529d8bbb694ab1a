// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

// RATES
//
// The state of a rate limiter is in its lock slot, and every process that has the ticket can compute
// the next permission. Times are those of `LockFile+Time.swift`, in milliseconds.
//
// TOKEN BUCKET     parameters: nanoseconds per token, burst. Word 0: the time, in nanoseconds, at which
//                  the bucket is full again. A token moves it on by one interval; it is never later
//                  than now plus burst intervals.
// SLIDING WINDOW   parameters: milliseconds per part, limit. A window has 16 parts. Word n: number of a
//                  part modulo 2^40 << 24 | calls, for part number modulo 17. A call is permitted if
//                  the calls of the current part and the 16 before it are below the limit: those cover
//                  every window that ends now, so no window ever has more than the limit.
//
// A time in the future, after a clock was set back while the machine was off or in a damaged word, is
// corrected: a bucket is empty at most, and a part that has not begun counts as no call.

extension LockFile {
  private static let parts: UInt64 = 16
  static let mostCalls: UInt64 = 1 << 24 - 1

  private static let partMask: UInt64 = 1 << 40 - 1

  private var now: UInt64 { nowNanoseconds / 1_000_000 }

  /// A permission that was taken: the word that counts it, and what it was before.
  struct Permission {
    fileprivate let offset: Int
    fileprivate let before: UInt64
  }

  /// Takes one permission of a limiter if its rate permits. The caller has the ticket.
  func take(_ kind: LockKind, _ slot: Int) -> Permission? {
    let (first, second) = (parameter(slot, 0), parameter(slot, 1))
    guard first > 0, second > 0 else { return nil }
    let offset = Layout.slot(slot) + Layout.slotWords
    if kind == .tokenBucket {
      let now = nowNanoseconds
      let span = Self.span(first, second)
      let found = words.load(offset)
      let full = min(max(found, now), now &+ span)
      guard full &+ first <= now &+ span else {
        if full < found { words.store(full, at: offset) }
        return nil
      }
      words.store(full &+ first, at: offset)
      return Permission(offset: offset, before: full)
    }
    guard calls(slot) < second else { return nil }
    return count(1, slot, at: now)
  }

  /// Gives back the permission that was taken last. The caller has had the ticket since.
  func giveBack(_ permission: Permission) {
    words.store(permission.before, at: permission.offset)
  }

  /// Adds calls to the part of a sliding window that contains a time.
  @discardableResult
  private func count(_ calls: UInt64, _ slot: Int, at time: UInt64) -> Permission {
    let part = time / max(parameter(slot, 0), 1)
    let word = Layout.slot(slot) + Layout.slotWords + Int(part % (Self.parts + 1)) * 8
    let found = words.load(word)
    let isOfPart = found >> 24 == part & Self.partMask
    let sum = min((isOfPart ? found & Self.mostCalls : 0) + calls, Self.mostCalls)
    words.store((part & Self.partMask) << 24 | sum, at: word)
    return Permission(offset: word, before: found)
  }

  /// Gives a sliding window another length of its parts. The calls of a part count as calls in the middle
  /// of it: processes with different lengths neither reset each other's counts nor renew them. Those
  /// before the new window count no more.
  func changeWindow(_ slot: Int, to milliseconds: UInt64) {
    let (now, old) = (now, max(parameter(slot, 0), 1))
    let offset = Layout.slot(slot) + Layout.slotWords
    var counted: [(time: UInt64, calls: UInt64)] = []
    for index in 0...Int(Self.parts) {
      let word = words.load(offset + index * 8)
      let age = (now / old &- word >> 24) & Self.partMask
      guard age <= Self.parts, word & Self.mostCalls > 0 else { continue }
      let start = (now / old - min(age, now / old)) &* old
      counted.append((min(start &+ old / 2, now), word & Self.mostCalls))
    }
    clearRate(slot)
    words.store(milliseconds, at: Layout.slot(slot) + Layout.slotParameters)
    let current = now / max(milliseconds, 1)
    for (time, calls) in counted where current - time / max(milliseconds, 1) <= Self.parts {
      count(calls, slot, at: time)
    }
  }

  /// The calls in the current part and the 16 before it.
  private func calls(_ slot: Int) -> UInt64 {
    let offset = Layout.slot(slot) + Layout.slotWords
    let part = now / max(parameter(slot, 0), 1)
    return (0...Int(Self.parts)).reduce(0) { sum, index in
      let word = words.load(offset + index * 8)
      let isCounted = (part &- word >> 24) & Self.partMask <= Self.parts
      return isCounted ? sum + word & Self.mostCalls : sum
    }
  }

  /// The longest sleep of a waiter before it polls a slot.
  func pause(slot: Int) -> UInt64 {
    guard let kind = kind(of: slot), kind.isPaced else { return Self.checkNanoseconds }
    let (first, second) = (parameter(slot, 0), parameter(slot, 1))
    var pause = first &* 1_000_000
    if kind == .tokenBucket {
      let now = nowNanoseconds
      let next = words.load(Layout.slot(slot) + Layout.slotWords) &+ first
      let end = now &+ Self.span(first, second)
      pause = next > end ? next - end : 0
    }
    return min(max(pause, 500_000), Self.checkNanoseconds)
  }

  /// Whether a lock slot contains nothing that a later call needs: a limiter at rest permits what a new
  /// one does.
  func isAtRest(_ slot: Int) -> Bool {
    switch kind(of: slot) {
    case .tokenBucket: words.load(Layout.slot(slot) + Layout.slotWords) <= nowNanoseconds
    case .slidingWindow: calls(slot) == 0
    default: true
    }
  }

  func clearRate(_ slot: Int) {
    for index in 0..<Layout.slotWordCount {
      words.store(0, at: Layout.slot(slot) + Layout.slotWords + 8 * index)
    }
  }

  /// The time in which an empty bucket fills.
  private static func span(_ interval: UInt64, _ burst: UInt64) -> UInt64 {
    min(interval.multipliedReportingOverflow(by: burst).overflow ? .max : interval * burst, 1 << 61)
  }
}
