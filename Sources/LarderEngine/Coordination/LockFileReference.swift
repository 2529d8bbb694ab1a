// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// The files of an open store with which processes coordinate.
struct LockFiles: Sendable {
  let locks: LockFileReference
  let rates: LockFileReference

  init(directory: StoreDirectory, clock: StoreClock) {
    locks = LockFileReference(directory, { $0.locks }, .locks, clock)
    rates = LockFileReference(directory, { $0.rates }, .rates, clock)
  }

  var all: [LockFileReference] { [locks, rates] }

  func file(of kind: LockKind) throws(StoreError) -> LockFile {
    try (kind.isPaced ? rates : locks).file()
  }
}

/// A file of locks of an open store, which the first use maps.
final class LockFileReference: Sendable {
  private let directory: StoreDirectory
  private let name: @Sendable (StoreDirectory) -> String
  private let table: LockTable
  private let clock: StoreClock
  private let state = Mutex<(file: LockFile?, checked: UInt64)>((nil, 0))
  private let former = Mutex<Set<UInt64>>([])
  /// The time between two checks that the path leads to the mapped file.
  private static let checkNanoseconds: UInt64 = 1_000_000_000

  init(
    _ directory: StoreDirectory, _ name: @escaping @Sendable (StoreDirectory) -> String,
    _ table: LockTable, _ clock: StoreClock
  ) {
    self.directory = directory
    self.name = name
    self.table = table
    self.clock = clock
  }

  private var path: String { name(directory) }

  /// Returns the mapped file. Maps it with the first use, and again if it was deleted.
  func file() throws(StoreError) -> LockFile {
    let now = Clocks.monotonicNanoseconds()
    let outcome: Result<LockFile, StoreError> = state.withLock { state in
      if let file = state.file {
        if now &- state.checked < Self.checkNanoseconds { return .success(file) }
        state.checked = now
        if file.isAtPath { return .success(file) }
      }
      do throws(StoreError) {
        let file = try LockFile(path: path, table, clock: clock)
        if let old = state.file { former.withLock { _ = $0.insert(old.owner) } }
        state = (file, now)
        return .success(file)
      } catch {
        return .failure(error)
      }
    }
    return try outcome.get()
  }

  /// The ids of this process in files that were deleted.
  var formerOwners: Set<UInt64> { former.withLock { $0 } }

  /// Returns the mapped file, or `nil` if no process has created it.
  func existingFile() throws(StoreError) -> LockFile? {
    StoreDirectory.exists(path) ? try file() : nil
  }
}

extension LockFile {
  /// Returns the description of a wait for monitors.
  func monitored(_ call: LockCall, _ pending: PendingLock) -> MonitoredWait {
    MonitoredWait(
      .lock(call.key.kind), holder: holder(of: pending.slot)?.pid, name: call.key.text)
  }
}

extension SharedStore {
  func lockCall(
    _ key: LockKey, _ mode: LockMode, _ parameters: (UInt64, UInt64) = (0, 0),
    timeout: Duration, isAsync: Bool
  ) -> LockCall {
    LockCall(
      store: self, key: key, mode: mode, parameters: parameters, caller: CallerIdentity.current,
      isAsync: isAsync, timeout: timeout, deadline: Clocks.deadline(after: timeout))
  }

  /// Acquires something, and blocks the thread until then.
  func acquire(_ call: LockCall) throws -> LockGrant {
    while true {
      let core = try openCore("lock")
      let file = try core.lockFiles.file(of: call.key.kind)
      switch try file.begin(call, mayWait: true) {
      case .granted(let grant): return grant
      case .queued(let pending):
        let grant = try core.monitors.waiting(file.monitored(call, pending)) {
          try file.wait(for: pending, call)
        }
        if let grant { return grant }
      case .busy: break
      }
    }
  }

  /// Acquires something, and suspends the task until then.
  func acquire(_ call: LockCall) async throws -> LockGrant {
    while true {
      try Task.checkCancellation()
      let core = try openCore("lock")
      let file = try core.lockFiles.file(of: call.key.kind)
      var begun = try file.begin(call, mayWait: false)
      if case .busy = begun {
        begun = try await BackgroundExecutor.shared.run { try file.begin(call, mayWait: true) }
      }
      switch begun {
      case .granted(let grant): return grant
      case .queued(let pending):
        let grant = try await core.monitors.waiting(file.monitored(call, pending)) {
          try await file.waits.wait(for: pending, call, in: file)
        }
        if let grant { return grant }
      case .busy: break
      }
    }
  }
}
