// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder
import LarderEngine
import LarderStorage
import LarderSystem
import LarderTesting

// Storages that processes share: files of a folder, values of a store, the one in front of the other,
// and plain files. Each key has one writer at a time; counters are everybody's, where updates are
// atomic among processes.

/// A storage, and what it promises to several processes.
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
  /// What stands in front: it can be emptied, and fills again.
  let front: SyncStorage<Int, StressValue>?

  var lane: OracleRegion { .storage(kind.rawValue) }
  var counterLane: OracleRegion { .counters(ofStorage: kind.rawValue) }
  /// Plain files are updated by each process for itself.
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
  /// Sets, counts and reads in all of them.
  func useStorages() throws {
    let storages = StressStorage.Kind.allCases.map { StressStorage($0, store, directory) }
    let own = OracleRegion.storage(0).own(place.index, of: place.count)
    loop {
      let storage = storages.randomElement()!
      switch Int.random(in: 0..<12) {
      case 0..<3: try set(own.randomElement()!, in: storage)
      case 3..<6 where storage.countsAmongProcesses:
        try count(storage.counterLane.keys.randomElement()!, in: storage)
      case 6: try storage.front?.remove(forKey: own.randomElement()!)
      default:
        for _ in 0..<10 { try read(storage.lane.keys.randomElement()!, from: storage) }
      }
    }
  }

  private func set(_ key: Int, in storage: StressStorage) throws {
    let sequence = board.issue(storage.lane, key)
    try storage.values.set(StressValue(key: key, sequence: sequence), forKey: key)
    board.raise(storage.lane, key, .acknowledged, to: sequence)
  }

  /// A value that was set is never read older. What stands in two places is told when it is in both,
  /// so that one reader's word binds nobody else.
  func read(_ key: Int, from storage: StressStorage) throws {
    let acknowledged = board.value(storage.lane, key, .acknowledged)
    let value = try storage.values.value(forKey: key)
    if let value, !value.isWhole(key) { violation("\(storage.kind): key \(key) is torn") }
    judge(
      value?.sequence, key, of: storage.lane, "\(storage.kind): key", acknowledged: acknowledged)
    if let value, storage.kind != .layers {
      board.raise(storage.lane, key, .acknowledged, to: value.sequence)
    }
  }

  private func count(_ key: Int, in storage: StressStorage) throws {
    let lane = storage.counterLane
    let acknowledged = board.value(lane, key, .acknowledged)
    board.add(lane, key, .issued)
    let count = try storage.counters.updateOrInsert(forKey: key) { count in
      // Longer and shorter, so that a write into the old file would show.
      let next = (count?.first ?? 0) + 1
      count = [UInt64](repeating: next, count: Int(next % 50) + 1)
    }
    board.add(lane, key, .acknowledged)
    judgeCounter(
      count?.first ?? 0, key, of: lane, "\(storage.kind): counter", atLeast: acknowledged + 1)
    if let count, count != [UInt64](repeating: count[0], count: Int(count[0] % 50) + 1) {
      violation("\(storage.kind): counter \(key) is torn")
    }
  }
}
