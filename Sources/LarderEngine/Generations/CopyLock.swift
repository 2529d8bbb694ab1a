// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// The lock of the file `copying`: while it is held, a live process writes a directory
/// `g-<n>.copy`.
///
/// A compaction writes its copy without the open lock. Openers, which hold the open lock, remove
/// copies that no process writes any more: they give them another name while they have this lock. The kernel releases the lock when its holder exits.
struct CopyLock: ~Copyable {
  static let suffix = ".copy"
  private let file: OwnedFile

  /// Acquires the lock. An opener that abandons a copy has it for a moment.
  ///
  /// - Throws: ``StoreError/Code/inUse`` if another process writes a copy, naming it.
  static func acquire(_ directory: StoreDirectory) throws -> CopyLock {
    let file = try open(directory)
    let end = Clocks.monotonicNanoseconds() + 50_000_000
    while !(try file.tryExclusiveLock()) {
      if Clocks.monotonicNanoseconds() < end {
        Event().wait(nanoseconds: 1_000_000)
        continue
      }
      let holder = file.lockHolder
      throw StoreError(
        .inUse, during: "compact", path: directory.path,
        "\(LockHolder.name(holder)) is compacting this store. Compact it later; if that process is "
          + "stopped, continue or end it.", pid: holder)
    }
    return CopyLock(file: file)
  }

  /// Runs `body` unless a process writes a copy, or that cannot be determined. None begins meanwhile.
  static func ifFree(in directory: StoreDirectory, _ body: () -> Void) {
    guard let file = try? open(directory), (try? file.tryExclusiveLock()) == true else { return }
    defer { file.unlock() }
    body()
  }

  func release() { file.unlock() }

  private static func path(_ directory: StoreDirectory) -> String { directory.root + "/copying" }

  private static func open(_ directory: StoreDirectory) throws(SystemError) -> OwnedFile {
    try OwnedFile(path: path(directory), creation: .createIfMissing, closesInForkedChild: true)
  }
}

/// The process that holds a lock, for messages.
enum LockHolder {
  static func name(_ pid: Int32?) -> String {
    pid.map { "Process \($0)" } ?? "Another process"
  }
}
