// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// One call of a function that acquires something.
struct LockCall: Sendable {
  let store: SharedStore
  let key: LockKey
  let mode: LockMode
  let parameters: (UInt64, UInt64)
  /// The task or thread.
  let caller: UInt64
  let isAsync: Bool
  let timeout: Duration
  /// The time of the monotonic clock at which the wait ends.
  let deadline: UInt64

  /// Throws if the wait has to end: the handle was closed, or the task was cancelled.
  func proceed() throws {
    if store.hasClosed { throw StoreError.closed("lock") }
    if Task.isCancelled { throw CancellationError() }
  }
}

/// A request of this process that waits.
struct PendingLock: Sendable {
  let slot: Int
  let request: Int
  let id: UInt64
  let isOfBarrier: Bool
}

/// A request of this process that was granted and confirmed.
struct LockGrant: Sendable {
  let file: LockFile
  let pending: PendingLock
  let token: UInt64

  /// Whether the request still holds what it was granted. It is lost only with the file.
  var isHeld: Bool {
    file.words.load32(LockFileLayout.request(pending.request))
      == LockState.word(pending.id, .held)
      && file.words.load32(LockFileLayout.request(pending.request) + LockFileLayout.requestSlot)
        == UInt32(pending.slot)
  }

  func release() { file.release(pending) }
}

/// Acquiring and releasing: rule 2 of `LockFileLayout.swift`.
extension LockFile {
  enum Begun {
    case granted(LockGrant)
    case queued(PendingLock)
    /// Another thread or process changes the slot, and the caller must not wait.
    case busy
  }

  /// Adds a request to the list of its name.
  ///
  /// - Parameter mayWait: Whether the thread may be blocked while another process changes the list.
  /// - Throws: ``StoreError``; ``StoreError/Code/lockedByCaller`` if the wait would be for the caller.
  func begin(_ call: LockCall, mayWait: Bool) throws -> Begun {
    restoreOwner()
    let request = try claim()
    var isListed = false
    defer { if !isListed { free(request) } }
    while true {
      guard let slot = try slot(of: call, mayWait: mayWait) else {
        if mayWait { throw timedOut(call, slot: nil, isListed: false) }
        return .busy
      }
      guard
        try mayWait
          ? enter(slot, until: call.deadline, proceed: { try call.proceed() }) : enterSoon(slot)
      else {
        if mayWait { throw timedOut(call, slot: slot, isListed: false) }
        return .busy
      }
      defer { leave(slot) }
      // The slot may have got another name before this process had its ticket.
      guard serves(slot, call) else { continue }
      let members = members(slot)
      try check(call, slot, members)
      isListed = true
      let pending = append(request, call, slot, after: members.last)
      fault(.lockQueued)
      if members.isEmpty, !call.key.kind.isMomentary {
        grant(request, in: slot, for: request)
      } else {
        settle(slot, for: request)
      }
      if let grant = confirm(pending) { return .granted(grant) }
      // A caller that does not wait for long has no later check of the holders.
      if call.timeout < .milliseconds(50) || mustCheck(slot) {
        reap(slot, for: request)
        if let grant = confirm(pending) { return .granted(grant) }
      }
      return .queued(pending)
    }
  }

  /// Throws if a call cannot be granted: its caller would wait for itself, or other processes use the
  /// name with other parameters.
  private func check(_ call: LockCall, _ slot: Int, _ members: [Int]) throws(StoreError) {
    var own = 0
    for request in members where owner(of: request) == owner {
      guard words.load(Layout.request(request) + Layout.requestCaller) == call.caller else {
        continue
      }
      switch state(request).state {
      case .held, .granted, .waiting: own += 1
      case .idle, .released, .abandoned, nil: break
      }
    }
    let most = call.key.kind == .semaphore ? Int(clamping: call.parameters.0) : 1
    if own >= most { throw .lockedByCaller(call.key, path: path) }
    try adopt(call, slot, members)
  }

  /// Stores the parameters of a call in its slot.
  private func adopt(_ call: LockCall, _ slot: Int, _ members: [Int]) throws(StoreError) {
    let found = (parameter(slot, 0), parameter(slot, 1))
    // Kinds without parameters ignore the words, which may be damaged.
    guard call.parameters.0 != 0, found != call.parameters else { return }
    if call.key.kind.isPaced {
      // The rate of the last call applies. Words of another window mean something else.
      if call.key.kind == .slidingWindow, found.0 != call.parameters.0 {
        changeWindow(slot, to: call.parameters.0)
      }
    } else if (1...UInt64(Layout.requestCount)).contains(found.0),
      members.contains(where: { isInUse($0, call.key.kind) })
    {
      throw StoreError(
        .invalidOption, during: "lock", path: path,
        "\(call.key.kind) \"\(call.key.text)\" is in use with \(found.0), and this call uses "
          + "\(call.parameters.0). Use the same number in every process.")
    }
    let offset = Layout.slot(slot) + Layout.slotParameters
    words.store(call.parameters.0, at: offset)
    words.store(call.parameters.1, at: offset + 8)
  }

  /// Returns whether a request depends on the parameters of its slot.
  private func isInUse(_ request: Int, _ kind: LockKind) -> Bool {
    if kind.isMomentary, state(request).state != .waiting { return false }
    return isAlive(owner(of: request))
  }

  private func append(
    _ request: Int, _ call: LockCall, _ slot: Int, after last: Int?
  ) -> PendingLock {
    let offset = Layout.request(request)
    let next = Layout.slot(slot) + Layout.slotNextID
    let id = max(words.load(next), last.map { self.id($0) &+ 1 } ?? 1) & (1 << 62 - 1)
    words.store(id + 1, at: next)
    words.store32(
      call.mode.rawValue | (call.isAsync ? Self.asyncFlag : 0), at: offset + Layout.requestMode)
    words.store32(UInt32(slot), at: offset + Layout.requestSlot)
    words.store32(0, at: offset + Layout.requestNext)
    words.store(id, at: offset + Layout.requestID)
    words.store(UInt64(clamping: Clocks.wallMilliseconds()), at: offset + Layout.requestSince)
    words.store(call.caller, at: offset + Layout.requestCaller)
    words.store(0, at: offset + Layout.requestGranted)
    words.store32(LockState.word(id, .waiting), at: offset)
    if let last {
      words.store32(UInt32(request) + 1, at: Layout.request(last) + Layout.requestNext)
    } else {
      words.store32(UInt32(request) + 1, at: Layout.slot(slot) + Layout.slotFirst)
    }
    return PendingLock(
      slot: slot, request: request, id: id, isOfBarrier: call.key.kind == .barrier)
  }

  // MARK: Waiting

  /// The state of a request of this process, or `nil` if it was lost with damaged words.
  func progress(of pending: PendingLock) -> LockState? {
    let found = state(pending.request)
    guard found.id == LockState.word(pending.id, .idle) >> 3 else { return nil }
    // A request that was passed over runs again.
    let granted = Layout.request(pending.request) + Layout.requestGranted
    if found.state == .waiting, words.load(granted) == .max {
      words.store(0, at: granted)
      signal(pending.slot)
    }
    // The process that opened the barrier may have been stopped or killed before it granted this.
    if pending.isOfBarrier, found.state == .waiting, pass(pending, from: .waiting) {
      return .granted
    }
    return found.state == .waiting || found.state == .granted ? found.state : nil
  }

  /// Confirms a grant; returns `nil` if the request is not granted.
  func confirm(_ pending: PendingLock) -> LockGrant? {
    guard exchange(pending.request, pending.id, .granted, .held) else { return nil }
    let token = words.load(Layout.request(pending.request) + Layout.requestToken)
    return LockGrant(file: self, pending: pending, token: token)
  }

  /// Waits for a request in the calling thread.
  ///
  /// - Returns: `nil` if the request was lost with damaged words, and has to begin again.
  func wait(for pending: PendingLock, _ call: LockCall) throws -> LockGrant? {
    let word = Layout.request(pending.request)
    while true {
      let state = progress(of: pending)
      if state == .granted {
        if let grant = confirm(pending) { return grant }
        continue
      }
      if state == nil { return nil }
      do {
        try call.proceed()
      } catch {
        if let grant = concede(pending, call) { return grant }
        throw error
      }
      let now = Clocks.monotonicNanoseconds()
      guard now < call.deadline else {
        let error = timedOut(call, slot: pending.slot, isListed: true)
        if withdraw(pending) { throw error }
        continue
      }
      words.sleep(
        at: word, while: LockState.word(pending.id, .waiting),
        nanoseconds: min(call.deadline - now, pause(slot: pending.slot)))
      if words.load32(word) == LockState.word(pending.id, .waiting) { poll(pending.slot) }
    }
  }

  /// Ends a request that waits. It does not wait.
  ///
  /// - Returns: `false` if it does not wait any more.
  func withdraw(_ pending: PendingLock) -> Bool {
    guard exchange(pending.request, pending.id, .waiting, .abandoned) else { return false }
    if pending.isOfBarrier, !turnBack(pending) { return false }
    signal(pending.slot)
    return true
  }

  /// Ends a request, whether it waits or was granted. It does not wait.
  ///
  /// - Returns: The grant of a limiter or barrier, which counts already.
  func concede(_ pending: PendingLock, _ call: LockCall) -> LockGrant? {
    guard let grant = withdrawOrConfirm(pending) else { return nil }
    if call.key.kind.isMomentary { return grant }
    grant.release()
    return nil
  }

  /// Ends a request that waits, or returns its grant.
  func withdrawOrConfirm(_ pending: PendingLock) -> LockGrant? {
    // Another process may pass over a request that was granted: then it waits once more.
    while !withdraw(pending) {
      if let grant = confirm(pending) { return grant }
      if progress(of: pending) == nil { return nil }
    }
    return nil
  }

  /// Releases what a request holds. It does not wait.
  func release(_ pending: PendingLock) {
    if ForkGuard.isForkedChild { return }
    guard exchange(pending.request, pending.id, .held, .released) else { return }
    fault(.lockReleased)
    signal(pending.slot)
    // The slot was damaged and has another name: the request is in no list.
    let slot = words.load32(Layout.request(pending.request) + Layout.requestSlot)
    if slot == .max, exchange(pending.request, pending.id, .released, .idle) {
      free(pending.request)
    }
  }
}
