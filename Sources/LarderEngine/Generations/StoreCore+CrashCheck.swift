// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderLMDB
internal import LarderSystem
internal import Synchronization

// AFTER PROCESSES DIED INSIDE LMDB
//
// LMDB aborts the process when a cursor reaches a page whose structure is broken, and no caller can
// prevent that page by page: the page is reached inside `mdb_cursor_next`. What can be bounded is
// how many processes it ends. Each process marks in the shared table when it is inside LMDB; an
// opener counts those that died there. An opener that is alone verifies the file's structure after
// two (`StoreOpener`). One that is not alone does so here, in a pinned snapshot, while the others
// continue.

extension StoreOpener {
  /// The number of process deaths inside LMDB after which a file is verified. One is not enough: it
  /// can be a process that was killed during a read.
  static let deathLimit: UInt32 = 2
}

extension StoreCore {
  /// The number of attempts to read a snapshot's meta page before it is overwritten. After that the
  /// next opener tries again.
  private static let metaTries = 100

  /// Verifies the structure of the file if processes died inside LMDB since it was last verified.
  ///
  /// Costs one load unless they did. Damage is treated as any that a read meets: a cache starts
  /// empty.
  ///
  /// - Throws: ``StoreError/Code/damaged`` for a store that survives system crashes.
  func verifyAfterDeaths() throws {
    try reading("open") { generation in
      let deaths = generation.table.crashesInLMDB
      guard deaths >= StoreOpener.deathLimit else { return }
      for _ in 0..<Self.metaTries {
        let damage: String?? = try generation.withSnapshot { snapshot in
          try generation.verifyPages(commitVersion: snapshot.commitVersion).map {
            $0.findings.first.map { "data.mdb: \($0)" }
          }
        }
        guard let damage else {
          OSThread.yield()
          continue
        }
        if let damage { throw LMDBError(.corrupted, during: damage) }
        return generation.table.acquit(deaths: deaths)
      }
    }
  }
}

extension Generation {
  /// Whether this process is leaving the generation, which waits for its readers. A reader of a
  /// superseded generation may continue to its end.
  package var isReadingOver: Bool { isClosing || table.isFenced && !table.isSuperseded }

  /// Verifies the pages that the meta page of a pinned snapshot reaches, with system calls.
  ///
  /// - Parameters:
  ///   - commitVersion: The commit version of the snapshot, which the caller pins.
  ///   - progress: A closure that gets the number of pages read and the last page.
  /// - Returns: The report, or `nil` if the snapshot's meta page was overwritten: the caller pins
  ///   a new snapshot and repeats.
  package func verifyPages(
    commitVersion: UInt64, progress: @escaping (UInt64, UInt64) -> Void = { _, _ in }
  ) throws -> StructuralVerifier.Report? {
    let report = try StructuralVerifier.verify(
      fileDescriptor: environment.dataDescriptor, snapshot: commitVersion &- versionBase,
      isUntouched: { [table] in
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        return table.writerVersion <= commitVersion &+ 1
      },
      progress: { [self] pages, lastPage in
        progress(pages, lastPage)
        return !isReadingOver
      })
    if isReadingOver { throw EngineSignal.generationChanged }
    return report
  }
}
