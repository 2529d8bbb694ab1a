// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import Larder
import LarderEngine
import LarderStorage
import LarderSystem
import LarderTesting

// Storages that processes share: files of a folder, values of a store, a store in front of a
// folder, and plain files. Each key has one writer at a time. Every process increments the
// counters, where updates are atomic among processes.

/// A storage, and its guarantees for several processes.
struct StressStorage: Sendable {
  enum Kind: Int, CaseIterable {
    case folder = 0
    case store
    /// The store in front of a folder.
    case layers
    case plainFiles
  }

  let kind: Kind
  let values: SyncStorage<Int, StressValue>
  let counters: SyncStorage<Int, [UInt64]>
  /// The front layer, if the storage has one; a read after its removal fills it again.
  let front: SyncStorage<Int, StressValue>?

  var region: OracleRegion { OracleRegion.storages[kind.rawValue] }
  var counterRegion: OracleRegion { OracleRegion.storageCounters[kind.rawValue] }
  /// Updates of plain files are atomic within one process only.
  var countsAmongProcesses: Bool { kind != .plainFiles }

  init(_ kind: Kind, _ store: SharedStore, _ directory: String) {
    self.kind = kind
    func folder(_ name: String) -> Storage<Int, Data> {
      DiskStorage.main.folder(at: URL(fileURLWithPath: directory + "/" + name, isDirectory: true))
        .mapKeys { (key: Int) in Filename(rawValue: "../key \(key)") }
    }
    switch kind {
    case .folder:
      values = folder("files").mapJSONObject(StressValue.self).makeSyncStorage()
      counters = folder("counters").mapJSONObject([UInt64].self).makeSyncStorage()
      front = nil
    case .store:
      values = store.storage("storage values", keys: Int.self, values: StressValue.self)
        .makeSyncStorage()
      counters = store.storage("storage counters", keys: Int.self, values: [UInt64].self)
        .makeSyncStorage()
      front = nil
    case .layers:
      let front = store.storage("storage front", keys: Int.self, values: StressValue.self)
      self.front = front.makeSyncStorage()
      values = front.combined(with: folder("behind").mapJSONObject(StressValue.self))
        .makeSyncStorage()
      counters = MemoryStorage<Int, [UInt64]>()
        .combined(with: folder("behind-counters").mapJSONObject([UInt64].self)).makeSyncStorage()
    case .plainFiles:
      let files = DiskStorage.main.asStorage()
        .mapKeys { (key: Int) in URL(fileURLWithPath: directory + "/plain/\(key).json") }
      values = files.mapJSONObject(StressValue.self).makeSyncStorage()
      counters = files.mapJSONObject([UInt64].self).makeSyncStorage()
      front = nil
    }
  }
}

extension Worker {
  /// Sets, increments and reads in every storage.
  func useStorages() -> [Operation] {
    let storages = StressStorage.Kind.allCases.map { StressStorage($0, store, directory) }
    let own = OracleRegion.storages[0].own(place)
    return [
      Operation(12) {
        let storage = storages.randomElement()!
        let write = self.board.issue(own.randomElement()!, of: storage.region)
        try storage.values.set(StressValue(write), forKey: write.key)
        self.board.acknowledge(write, of: storage.region)
      },
      Operation(9) {
        let storage = storages.filter(\.countsAmongProcesses).randomElement()!
        try self.count(storage.counterRegion.keys.randomElement()!, in: storage)
      },
      Operation(4) {
        try storages.randomElement()!.front?.remove(forKey: own.randomElement()!)
      },
      Operation(23) {
        let storage = storages.randomElement()!
        for _ in 0..<10 {
          let key = storage.region.keys.randomElement()!
          try self.check(key, of: storage.region) { try storage.values.value(forKey: key) }
        }
      },
    ]
  }

  private func count(_ key: Int, in storage: StressStorage) throws {
    try increment(key, of: storage.counterRegion) {
      let count = try storage.counters.updateOrInsert(forKey: key) { count in
        // Longer and shorter, so that a write into the old file is visible.
        let next = (count?.first ?? 0) + 1
        count = [UInt64](repeating: next, count: Int(next % 50) + 1)
      }
      if let count, count != [UInt64](repeating: count[0], count: Int(count[0] % 50) + 1) {
        violation("\(storage.counterRegion.name) \(key) is torn")
      }
      return count?.first ?? 0
    }
  }
}
#endif
