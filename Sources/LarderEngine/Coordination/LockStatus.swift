// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// The callers that hold and wait for something with a name, at one time.
public struct LockStatus: Sendable, Hashable {
  /// A caller that holds something or waits for it.
  public struct Request: Sendable, Hashable {
    /// The process of the caller.
    public let process: LockProcess
    /// The time at which the caller began to hold or to wait, in milliseconds since 1970.
    public let since: Int64
    /// The fencing token of a holder; zero for a waiter.
    public let token: UInt64
  }

  /// The kind.
  public let kind: LockKind
  /// The name. Limiters whose names share a bucket, because there is no room for each, have the text
  /// `several names`.
  public let name: String
  /// The callers that hold it.
  public let holders: [Request]
  /// The callers that wait for it, in their order.
  public let waiters: [Request]
}

extension SharedStore {
  /// Returns everything that is held or waited for now, by any process.
  ///
  /// ```swift
  /// for lock in try store.locks() {
  ///   for holder in lock.holders { print(lock.kind, lock.name, holder.process) }
  /// }
  /// ```
  ///
  /// The call acquires nothing and does not wait: callers that come and go during the call may be
  /// missing. Names that no caller uses now are left out, and processes that have ended.
  ///
  /// - Returns: The kinds and names in use, ordered by kind and name.
  /// - Throws: ``StoreError`` if the file `locks` or `rates` cannot be read.
  /// - Complexity: O(*n*) in the room for names, and a system call for each process.
  public func locks() throws -> [LockStatus] {
    let core = try openCore("locks")
    if core.options.readsOnly {
      do throws(SystemError) {
        return try StoreObserver.locks(of: core.directory)
      } catch {
        throw StoreError(error, during: "locks", path: core.directory.path)
      }
    }
    return LockStatus.sorted(
      try core.lockFiles.all.flatMap { try $0.existingFile()?.status() ?? [] })
  }
}

extension LockStatus {
  static func sorted(_ locks: [LockStatus]) -> [LockStatus] {
    locks.sorted { ($0.kind.rawValue, $0.name) < ($1.kind.rawValue, $1.name) }
  }
}

extension LockFile {
  func status() -> [LockStatus] {
    var lives: [UInt64: Bool] = [:]
    var result: [LockStatus] = []
    for slot in 0..<table.slotCount
    where words.load32(Layout.slot(slot) + Layout.slotFirst) != 0 {
      guard let key = key(of: slot) else { continue }
      var (holders, waiters): ([LockStatus.Request], [LockStatus.Request]) = ([], [])
      for request in list(slot) ?? [] {
        let owner = owner(of: request)
        let isAlive = lives[owner] ?? isAlive(owner)
        lives[owner] = isAlive
        guard isAlive, let process = process(number: Self.ownerNumber(owner)) else { continue }
        let offset = Layout.request(request)
        let since = Int64(clamping: words.load(offset + Layout.requestSince))
        switch state(request).state {
        case .waiting: waiters.append(.init(process: process, since: since, token: 0))
        case .granted, .held:
          if key.kind.isMomentary { continue }
          let token = words.load(offset + Layout.requestToken)
          holders.append(.init(process: process, since: since, token: token))
        case .idle, .released, .abandoned, nil: break
        }
      }
      guard !holders.isEmpty || !waiters.isEmpty else { continue }
      result.append(
        LockStatus(kind: key.kind, name: key.text, holders: holders, waiters: waiters))
    }
    return result
  }
}
