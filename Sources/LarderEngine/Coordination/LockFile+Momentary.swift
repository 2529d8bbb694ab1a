// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

// LIMITERS AND BARRIERS
//
// What they grant is used at once: a granted request counts no more, and stays in the list only until
// its caller releases it.
//
// A LIMITER takes a permission before it grants it. A process that is killed in between loses one; a
// caller that has stopped waiting in between gives it back.
//
// A BARRIER opens for all of its parties or for none, although callers stop waiting without the ticket
// and the process that opens it can be killed at any step. One word of its slot decides:
//
//     bits  0 to 47   the id of the last request for which the barrier has opened
//     bits 48 to 63   a number that each caller changes that stops waiting
//
//   * The process with the ticket loads the word, counts the requests that wait, and replaces the word
//     by one with the id of the last party. That fails if a caller has stopped waiting since, and the
//     requests are counted again. When it succeeds the barrier has opened: every request up to that id
//     is one of its parties, and is granted by the first that comes to it: this process, the next one
//     with the ticket, or the process of its caller.
//   * A caller that stops waiting makes its request abandoned first, and changes the number next. If the
//     word has its id by then, and the request is abandoned still, it was counted, and passes: an
//     abandoned request is removed only while the word does not have its id. Otherwise no later opening
//     counts it.
//
// The number cannot come round while a process counts: that has the ticket, so no request is added.

extension LockFile {
  /// Removes the requests of a limiter or a barrier that have ended, and grants the next ones. The caller
  /// has the ticket.
  func settleMomentary(_ kind: LockKind, in slot: Int, for own: Int?) {
    guard kind == .barrier else { return settleLimiter(kind, in: slot, for: own) }
    repeat { settleBarrier(in: slot, for: own) } while open(slot)
  }

  private func settleLimiter(_ kind: LockKind, in slot: Int, for own: Int?) {
    // A process that was killed while it waited takes no permission.
    for request in removeEnded(slot) where isAlive(owner(of: request)) {
      guard let permission = take(kind, slot) else { return }
      if !grant(request, in: slot, for: own) { giveBack(permission) }
    }
  }

  /// Removes the requests that have ended, and returns those that wait.
  private func removeEnded(_ slot: Int) -> [Int] {
    var previous: Int?
    var waiting: [Int] = []
    for request in members(slot) {
      switch state(request).state {
      case .waiting: waiting.append(request)
      case .granted, .held: break
      case .idle, .released, .abandoned, nil:
        unlink(request, after: previous, in: slot)
        free(request)
        continue
      }
      previous = request
    }
    return waiting
  }

  // MARK: Barriers

  private static let idMask: UInt64 = 1 << 48 - 1

  /// Returns whether a barrier has opened for a request.
  private func hasOpened(_ word: UInt64, _ slot: Int, for id: UInt64) -> Bool {
    // A damaged word opens nothing.
    let next = words.load(Layout.slot(slot) + Layout.slotNextID)
    return Self.isAtMost(id, word) && Self.isAtMost(word &+ 1, next)
  }

  /// Compares two ids, which may have come round.
  private static func isAtMost(_ first: UInt64, _ second: UInt64) -> Bool {
    (second &- first) & idMask < 1 << 47
  }

  /// Grants the requests for which a barrier has opened, and removes those that have ended.
  private func settleBarrier(in slot: Int, for own: Int?) {
    let word = words.load(Layout.slot(slot) + Layout.slotOpened)
    for request in members(slot) where hasOpened(word, slot, for: id(request)) {
      switch state(request).state {
      case .waiting, .abandoned:
        // Its caller may stop waiting at any time.
        if !grant(request, in: slot, for: own) {
          _ = exchange(request, id(request), .abandoned, .granted)
        }
      case .idle, .granted, .held, .released, nil: break
      }
    }
    _ = removeEnded(slot)
  }

  /// Opens a barrier for the callers that arrived first.
  ///
  /// - Returns: `false` if too few have arrived.
  private func open(_ slot: Int) -> Bool {
    let offset = Layout.slot(slot) + Layout.slotOpened
    let parties = Int(clamping: parameter(slot, 0))
    guard parties > 0 else { return false }
    while true {
      let word = words.load(offset)
      let members = members(slot)
      let waiting = members.filter { state($0).state == .waiting }
      guard waiting.count >= parties else { return false }
      // A process that was killed while it waited has not arrived.
      let arrived = waiting.filter { isAlive(owner(of: $0)) }
      guard arrived.count >= parties else { return false }
      fault(.barrierCounted)
      restoreNextID(slot, after: members.last)
      let opened = word & ~Self.idMask | id(arrived[parties - 1]) & Self.idMask
      if words.replace(word, by: opened, at: offset) {
        fault(.barrierOpened)
        return true
      }
    }
  }

  /// Corrects the next id if it is damaged: with it, no opening would be valid.
  private func restoreNextID(_ slot: Int, after last: Int?) {
    guard let last else { return }
    let offset = Layout.slot(slot) + Layout.slotNextID
    if !Self.isAtMost(id(last) &+ 1, words.load(offset)) {
      words.store(id(last) &+ 1, at: offset)
    }
  }

  /// Grants the request of this process if its barrier has opened for it.
  func pass(_ pending: PendingLock, from state: LockState) -> Bool {
    let word = words.load(Layout.slot(pending.slot) + Layout.slotOpened)
    return hasOpened(word, pending.slot, for: pending.id)
      && exchange(pending.request, pending.id, state, .granted)
  }

  /// Makes sure that no barrier counts a request which its caller has abandoned.
  ///
  /// - Returns: `false` if its barrier has opened for it; then it is granted.
  func turnBack(_ pending: PendingLock) -> Bool {
    let offset = Layout.slot(pending.slot) + Layout.slotOpened
    while true {
      let word = words.load(offset)
      if hasOpened(word, pending.slot, for: pending.id) {
        if pass(pending, from: .abandoned) { return false }
        // Otherwise it was removed before.
        return words.load32(Layout.request(pending.request))
          != LockState.word(pending.id, .granted)
      }
      if words.replace(word, by: word &+ (1 << 48), at: offset) { return true }
    }
  }
}
