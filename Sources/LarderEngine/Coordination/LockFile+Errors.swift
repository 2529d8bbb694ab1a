// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

extension StoreError {
  /// Returns the error of a call whose caller holds, or waits for, the same thing already.
  static func lockedByCaller(_ key: LockKey, path: String) -> StoreError {
    StoreError(
      .lockedByCaller, during: "lock", path: path,
      "This task or thread uses the \(key.kind) \"\(key.text)\" already, and would wait for itself. "
        + "Pass the held value on instead of acquiring it again.",
      pid: ProcessIdentity.pid)
  }

  /// Returns the error of a name that is empty or too long.
  static func invalidLockName(_ kind: LockKind, length: Int) -> StoreError {
    StoreError(
      .invalidLockName, during: "lock",
      "The name of a \(kind) has \(length) bytes of UTF-8; the range is 1 to "
        + "\(LockKey.longestName). Use a shorter name, or a hash of it.")
  }

  /// This error with the process that caused it.
  fileprivate func caused(by process: LockProcess?) -> StoreError {
    var error = self
    error.process = process
    return error
  }
}

extension LockFile {
  /// Returns the error of a call whose deadline passed; it names the process that it waited for.
  ///
  /// - Parameters:
  ///   - slot: The slot of the name, or `nil` if the wait was for the allocation of slots.
  ///   - isListed: Whether the call has a request in the list of the name. If not, it waited for the
  ///     process that changes the list, and not for a holder.
  func timedOut(_ call: LockCall, slot: Int?, isListed: Bool) -> StoreError {
    let holder = slot.flatMap { self.holder(of: $0) }
    let changer = isListed && holder != nil ? nil : self.changer(of: slot, isListed)
    let process = changer ?? holder
    let cause: String
    if let process {
      let isOwn =
        process.pid == ProcessIdentity.pid && process.startTime == ProcessIdentity.startTime
      let action = changer == nil ? "holds it" : "changes the list of its callers"
      let advice = changer == nil ? "Keep the closures that hold it short." : "Try again."
      cause =
        isOwn
        ? "\(process), which is this one, \(action). \(advice)"
        : "\(process) \(action). If that is stopped, resume it (kill -CONT \(process.pid)) or end it."
    } else if call.key.kind.isPaced {
      cause = "The rate permits no more calls now. Use a longer timeout, or a higher rate."
    } else if call.key.kind == .barrier, let slot {
      let arrived = (list(slot) ?? []).count { state($0).state == .waiting }
      cause =
        "\(arrived) of \(call.parameters.0) callers have arrived. Start the others, or use a longer "
        + "timeout."
    } else {
      cause = "No process holds it now. Use a longer timeout."
    }
    return StoreError(
      .lockTimeout, during: "lock", path: path,
      "The wait for the \(call.key.kind) \"\(call.key.text)\" timed out after \(call.timeout): "
        + cause, pid: process?.pid
    ).caused(by: process)
  }

  /// Returns the process that changes the list of a slot, or that allocates one.
  ///
  /// - Parameter isListed: Whether the caller has waited for something else: a process that is done with
  ///   the list in a moment was not waited for.
  private func changer(of slot: Int?, _ isListed: Bool) -> LockProcess? {
    if isListed, let slot, enterSoon(slot) {
      leave(slot)
      return nil
    }
    let ticket = slot.map { Layout.slot($0) + Layout.slotTicket } ?? Layout.allocation
    return words.ticket(at: ticket).holder.flatMap { process(number: $0) }
  }

  /// Returns the living process of the first request that holds something in a slot. Needs no ticket.
  func holder(of slot: Int) -> LockProcess? {
    if kind(of: slot)?.isMomentary == true { return nil }
    for request in list(slot) ?? [] {
      let state = state(request).state
      guard state == .held || state == .granted, isAlive(owner(of: request)) else { continue }
      return process(number: Self.ownerNumber(owner(of: request)))
    }
    return nil
  }
}
