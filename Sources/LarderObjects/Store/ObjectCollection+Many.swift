// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCache
internal import LarderEngine
internal import LarderObjectEngine

extension ObjectCollection {
  /// Returns the objects of several ids. Reads those that are not in memory in one snapshot.
  ///
  /// - Parameter context: The loader for the references of the objects, or `nil` to load them from
  ///   the store. Only with `nil` does the memory tier serve and keep the objects.
  /// - Returns: One element per id, `nil` where the object does not exist.
  func objects(texts: [String], _ context: ReferenceLoader? = nil) throws -> [Object?] {
    if texts.count == 1, context == nil { return [try object(text: texts[0])] }
    var objects: [Object?] = Array(repeating: nil, count: texts.count)
    var open: [Int] = []
    for (position, text) in texts.enumerated() {
      if context == nil, let object = kind.object(in: kind.tier.validValue(text)) {
        objects[position] = object
      } else {
        open.append(position)
      }
    }
    guard !open.isEmpty else { return objects }
    let core = try store.storage.openCore("object")
    let (found, view): ([(stored: StoredObject, hash: UInt64)?], SnapshotView) =
      try core.withSnapshot("object") {
        snapshot in
        guard let state = try kind.state(snapshot) else { return ([], snapshot.view) }
        let found = try open.map { position in
          try stored(texts[position], state.record.number, snapshot)
        }
        return (found, snapshot.view)
      }
    var reads: [ReadState] = []
    var read: [Object] = []
    defer { kind.noteReads(reads) { read[$0] } }
    for (position, item) in zip(open, found) {
      guard let item else { continue }
      let decoded = try kind.decode(
        item.stored, context.map { ReferenceDecoder($0) } ?? kind.newDecoder())
      objects[position] = decoded.object
      reads.append(kind.readState(item.stored))
      read.append(decoded.object)
      guard context == nil, kind.sharesInstances else { continue }
      kind.tier.insert(
        decoded, forKey: texts[position],
        from: TierOrigin(
          readVersion: view.readVersion, commitVersion: item.stored.commitVersion,
          storeHash: item.hash, table: view.generation.table),
        expires: .max, cost: item.stored.bytes.count + 64)
    }
    return objects
  }

  /// Returns the stored object of an id in a snapshot, or `nil` if it does not exist.
  func stored(
    _ text: String, _ type: UInt32, _ snapshot: borrowing Snapshot
  ) throws -> (stored: StoredObject, hash: UInt64)? {
    let id = Array(text.utf8)
    do {
      guard
        let sequence = try ObjectReading.sequence(type: type, id: id, in: snapshot),
        let stored = try ObjectReading.object(
          type: type, sequence: sequence, in: snapshot)
      else { return nil }
      let hash = snapshot.generation.objectHash(type: type, id: id)
      snapshot.generation.table.touchExactly(hash: hash)
      return (stored, hash)
    } catch let damage as DamagedObject {
      throw kind.damaged(damage)
    }
  }
}
