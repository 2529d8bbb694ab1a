// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// The decision which requests of a lock slot are granted: rules 2, 3 and 5 of `LockFileLayout.swift`.
extension LockFile {
  /// Returns the kind of a slot, or `nil` if it is free or damaged.
  func kind(of slot: Int) -> LockKind? {
    let offset = Layout.slot(slot)
    guard words.load(offset) != 0 else { return nil }
    return LockKind(code: UInt8(truncatingIfNeeded: words.load(offset + Layout.slotKey)))
  }

  /// Removes the requests of a slot that have ended, and grants the next ones. The caller has the
  /// ticket.
  ///
  /// - Parameter own: The caller's request, which needs no wake-up.
  func settle(_ slot: Int, for own: Int? = nil) {
    if removeOnly(slot) { return }
    let kind = kind(of: slot)
    if let kind, kind.isMomentary { return settleMomentary(kind, in: slot, for: own) }
    var previous: Int?
    var waiting: [Int] = []
    var (holders, hasExclusive) = (0, false)
    for request in members(slot) {
      let state = state(request).state
      switch state {
      case .waiting: waiting.append(request)
      case .granted, .held:
        holders += 1
        if mode(request) == .exclusive { hasExclusive = true }
      case .idle, .released, .abandoned, nil:
        unlink(request, after: previous, in: slot)
        free(request)
        continue
      }
      previous = request
    }
    guard !waiting.isEmpty, let kind else { return }
    for request in waiting {
      if words.load(Layout.request(request) + Layout.requestGranted) == .max { continue }
      let isExclusive = mode(request) != .shared
      let isFree: Bool =
        switch kind {
        case .semaphore: holders < Int(clamping: parameter(slot, 0))
        default: isExclusive ? holders == 0 : !hasExclusive
        }
      guard isFree || Mutant.lockGrantsTwice.isActive else { return }
      grant(request, in: slot, for: own)
      holders += 1
      if isExclusive { hasExclusive = true }
    }
  }

  /// Removes the only request of a list if it has ended: without other callers, a release allocates
  /// nothing.
  ///
  /// - Returns: `false` if there are others, or it has not ended.
  private func removeOnly(_ slot: Int) -> Bool {
    let first = Layout.slot(slot) + Layout.slotFirst
    let request = Int(words.load32(first)) - 1
    guard request >= 0 else { return true }
    guard request < Layout.requestCount, state(request).state == .released,
      words.load32(Layout.request(request) + Layout.requestNext) == 0,
      words.load32(Layout.request(request) + Layout.requestSlot) == UInt32(slot)
    else { return false }
    words.store32(0, at: first)
    free(request)
    return true
  }

  /// Grants a request that waits, with the next token, and wakes its caller.
  ///
  /// - Returns: `false` if the request does not wait any more.
  @discardableResult
  func grant(_ request: Int, in slot: Int, for own: Int?) -> Bool {
    let offset = Layout.request(request)
    let (owner, isAsync) = (
      owner(of: request), words.load32(offset + Layout.requestMode) & Self.asyncFlag != 0
    )
    words.store(nextToken(slot), at: offset + Layout.requestToken)
    words.store(Clocks.monotonicNanoseconds(), at: offset + Layout.requestGranted)
    words.store(UInt64(clamping: Clocks.wallMilliseconds()), at: offset + Layout.requestSince)
    guard exchange(request, id(request), .waiting, .granted) else { return false }
    if request == own { return true }
    if isAsync { wakeThread(of: owner) } else { words.wake(at: offset) }
    return true
  }

  static let asyncFlag: UInt32 = 1 << 8

  func parameter(_ slot: Int, _ index: Int) -> UInt64 {
    words.load(Layout.slot(slot) + Layout.slotParameters + 8 * index)
  }

  // MARK: Tokens

  /// Returns the next token of a slot. Its caller has the ticket.
  private func nextToken(_ slot: Int) -> UInt64 {
    let offset = Layout.slot(slot) + Layout.slotToken
    let token = (token(at: offset) ?? lowestToken(0)) + 1
    storeToken(Mutant.lockTokenRepeats.isActive ? token - 1 : token, at: offset)
    return token
  }

  /// Returns the token of a pair of words, or `nil` if they are damaged. A process that was killed
  /// between the two stores leaves a difference of one.
  func token(at offset: Int) -> UInt64? {
    let (token, inverse) = (words.load(offset), ~words.load(offset + 8))
    return token < 1 << 62 && token &- inverse <= 1 ? token : nil
  }

  func storeToken(_ token: UInt64, at offset: Int) {
    words.store(token, at: offset)
    words.store(~token, at: offset + 8)
  }

  /// Returns the token before the first one of a slot that is new or damaged.
  ///
  /// Acquiring and releasing takes more than 250 ns, so the clock counts faster than the tokens. In this
  /// unit they are exact as floating-point numbers, in which JSON is often read, until 2041.
  func lowestToken(_ commitVersion: UInt64) -> UInt64 {
    let time = Clocks.wallNanoseconds() / 250
    return max(token(at: Layout.tokenFloor) ?? 0, min(commitVersion, 1 << 61), min(time, 1 << 61))
  }
}
