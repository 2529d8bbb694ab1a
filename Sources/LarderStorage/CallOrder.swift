// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Synchronization

// Calls with a completion return before they take effect. Calls made one after the other must
// nevertheless take effect in that order: a set, then a set, then a retrieve of one key.
//
// * Each call enters the lanes of its key before it returns to the caller: one lane per storage and key
//   hash, two or more for storages composed of several. A lane admits writes one at a time and reads
//   between two writes together.
// * A call waits only for earlier calls. It enters all its lanes in one critical section, so calls never
//   wait for each other in a circle. It leaves them before its completion runs, so a completion may call
//   the same storage again, and wait for it.
// * An operation may call other storages, or the same one, and wait for those calls. Such a nested call
//   has the operation as its scope, and waits only for earlier calls of the same scope or of scopes
//   inside it: never for a call that waits for its own operation.
// * A lane exists while calls are in it. At most `limit` calls are pending; further ones fail.

/// A queue of calls: those of one key of one storage.
@usableFromInline
package struct CallLane: Hashable, Sendable {
  package let owner: ObjectIdentifier
  package let hash: Int

  package init(_ owner: ObjectIdentifier, _ hash: Int) {
    self.owner = owner
    self.hash = hash
  }
}

/// The order of calls with completions.
package final class CallOrder: Sendable {
  /// A pending call, which leaves its lanes when it has taken effect.
  package typealias Ticket = UInt64

  /// The order of this process.
  static let shared = CallOrder(limit: 65_536)

  /// The calls that may be pending.
  let limit: Int

  /// The operations in which the caller runs, outermost first.
  @TaskLocal private static var scope: [Ticket] = []

  private let pending = Atomic<Int>(0)
  private let state = Mutex(CallOrderState())

  package init(limit: Int) { self.limit = limit }

  /// Returns whether a call would have to wait for no earlier one.
  package func isFree(_ lanes: [CallLane], isWrite: Bool) -> Bool {
    if pending.load(ordering: .acquiring) == 0 { return true }
    let scope = Self.scope
    return state.withLock { $0.blockers(lanes, isWrite, $0.alive(scope)).isEmpty }
  }

  /// Enters lanes after all earlier calls.
  ///
  /// - Throws: ``StorageError/Code/lockTimeout`` if too many calls are pending.
  package func enter(_ lanes: [CallLane], isWrite: Bool) throws -> Ticket {
    let scope = Self.scope
    return try state.withLock { state in
      guard state.calls.count < limit else { throw StorageError.tooManyCalls(limit) }
      pending.add(1, ordering: .acquiringAndReleasing)
      return state.enter(lanes, isWrite, state.alive(scope))
    }
  }

  /// Waits for the calls before, and runs the operation of a call.
  func run<Output>(_ ticket: Ticket, _ body: () async throws -> Output) async rethrows
    -> Output
  {
    await withCheckedContinuation { continuation in
      let isFirst = state.withLock { $0.wait(ticket, continuation) }
      if isFirst { continuation.resume() }
    }
    return try await Self.$scope.withValue(Self.scope + [ticket]) { try await body() }
  }

  /// Leaves the lanes of a call, and resumes the calls that waited for it alone.
  package func leave(_ ticket: Ticket) {
    let next = state.withLock { $0.leave(ticket) }
    pending.subtract(1, ordering: .acquiringAndReleasing)
    for continuation in next { continuation.resume() }
  }
}

private struct CallOrderState: Sendable {
  typealias Ticket = CallOrder.Ticket

  struct Call: Sendable {
    let lanes: [CallLane]
    let isWrite: Bool
    let scope: [Ticket]
    var blockers: Int
    var waiters: [Ticket] = []
    var continuation: CheckedContinuation<Void, Never>?
  }

  /// Tickets in rising order. Those of calls that have ended are dropped when they come to the front.
  struct Line: Sendable {
    var tickets: [Ticket] = []
    var head = 0

    mutating func drop(while hasEnded: (Ticket) -> Bool) {
      while head < tickets.count, hasEnded(tickets[head]) { head += 1 }
      if head > 64, head > tickets.count / 2 {
        tickets.removeFirst(head)
        head = 0
      }
    }
  }

  struct Lane: Sendable {
    var writes = Line()
    var reads = Line()
    var count = 0
  }

  var calls: [Ticket: Call] = [:]
  private var lanes: [CallLane: Lane] = [:]
  private var last: Ticket = 0

  /// The operations of a scope that still run.
  func alive(_ scope: [Ticket]) -> [Ticket] {
    scope.isEmpty ? scope : scope.filter { calls[$0] != nil }
  }

  /// Returns the calls for which a new call must wait. A write covers the calls for which it waits.
  func blockers(_ lanes: [CallLane], _ isWrite: Bool, _ scope: [Ticket]) -> Set<Ticket> {
    var blockers = Set<Ticket>()
    for lane in lanes {
      guard let lane = self.lanes[lane] else { continue }
      var covered: Ticket = 0
      for ticket in lane.writes.tickets[lane.writes.head...].reversed() {
        guard let call = calls[ticket], call.scope.starts(with: scope) else { continue }
        blockers.insert(ticket)
        if call.scope == scope {
          covered = ticket
          break
        }
      }
      guard isWrite else { continue }
      for ticket in lane.reads.tickets[lane.reads.head...].reversed() {
        if ticket < covered { break }
        guard let call = calls[ticket], call.scope.starts(with: scope) else { continue }
        blockers.insert(ticket)
      }
    }
    return blockers
  }

  mutating func enter(_ lanes: [CallLane], _ isWrite: Bool, _ scope: [Ticket]) -> Ticket {
    let blockers = blockers(lanes, isWrite, scope)
    last += 1
    let ticket = last
    let lanes = Array(Set(lanes))
    for lane in lanes {
      if isWrite {
        self.lanes[lane, default: Lane()].writes.tickets.append(ticket)
      } else {
        self.lanes[lane, default: Lane()].reads.tickets.append(ticket)
      }
      self.lanes[lane]!.count += 1
    }
    for blocker in blockers { calls[blocker]!.waiters.append(ticket) }
    calls[ticket] = Call(
      lanes: lanes, isWrite: isWrite, scope: scope, blockers: blockers.count)
    return ticket
  }

  /// Returns whether a call waits for no other; otherwise the continuation is resumed later.
  mutating func wait(
    _ ticket: Ticket, _ continuation: CheckedContinuation<Void, Never>
  ) -> Bool {
    guard let call = calls[ticket], call.blockers > 0 else { return true }
    calls[ticket]!.continuation = continuation
    return false
  }

  mutating func leave(_ ticket: Ticket) -> [CheckedContinuation<Void, Never>] {
    guard let call = calls.removeValue(forKey: ticket) else { return [] }
    for key in call.lanes {
      guard var lane = lanes.removeValue(forKey: key) else { continue }
      lane.count -= 1
      if lane.count == 0 { continue }
      lane.writes.drop { calls[$0] == nil }
      lane.reads.drop { calls[$0] == nil }
      lanes[key] = lane
    }
    var next: [CheckedContinuation<Void, Never>] = []
    for waiter in call.waiters {
      calls[waiter]?.blockers -= 1
      if let waiting = calls[waiter], waiting.blockers == 0, let continuation = waiting.continuation
      {
        calls[waiter]!.continuation = nil
        next.append(continuation)
      }
    }
    return next
  }
}
