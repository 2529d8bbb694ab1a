// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderLMDB
internal import LarderSystem
internal import Synchronization

/// What a look-up in a store found, under which snapshot.
package struct Lookup: Sendable {
  package enum Outcome: Sendable {
    case absent
    /// The entry the caller knows already is still the one.
    case unchanged
    case found(StoredValue)
    /// Something is there that cannot be read.
    case unreadable(String)
  }

  package let outcome: Outcome
  package let hash: UInt64
  /// The snapshot's label, inverted: what `SharedTable.isCurrent` compares.
  package let seal: UInt64
  package let generation: Generation

  package var slot: Int { Int(hash & UInt64(SharedTableLayout.stampCount - 1)) }
}

/// An entry's value, copied out and checked.
package struct StoredValue: Sendable {
  package let payload: [UInt8]
  package let codec: UInt16
  /// The label of the transaction that wrote it.
  package let label: UInt64
  package let created: Int64
  package let expires: Int64
}

extension StoredValue {
  init(_ payload: [UInt8], _ header: EntryHeader) {
    self.init(
      payload: payload, codec: header.codec, label: header.label, created: header.created,
      expires: header.expires)
  }
}

extension StoreCore {
  /// Reads a key from the store (R1 to R3 of the protocol).
  ///
  /// - Parameter known: The label of the entry the caller has decoded; if that still is the one,
  ///   nothing is copied.
  package func lookup(
    _ key: EncodedKey, in space: NamespaceHandle, known: UInt64 = 0
  ) throws -> Lookup {
    let generation = try generation()
    let ((hash, number), found) = key.bytes.withRawSpan { bytes in
      let (hash, number) = place(of: key.tag, bytes, in: space, generation)
      return (
        (hash, number),
        known == 0 ? remembered(key.tag, bytes, hash, number, in: generation) : nil
      )
    }
    if let (value, seal) = found {
      return Lookup(outcome: .found(value), hash: hash, seal: seal, generation: generation)
    }
    return try lookup(key, in: space, known: known, at: (generation, hash, number))
  }

  /// The payload of a key, or `nil`: for who wants nothing else of an entry. What waits in this
  /// process's queue counts.
  func payload(of key: EncodedKey, in space: NamespaceHandle) throws -> [UInt8]? {
    if !pending.isEmpty, let record = queue.pendingWrite(of: key, in: space) {
      if case .put(let content) = record.kind { return content.payload }
      if case .remove = record.kind { return nil }
    }
    return try Self.payload(of: lookup(key, in: space), in: space)
  }

  /// The same for a text: its bytes are lent, and no key is made of them where the entry is found at
  /// once.
  func payload(ofText text: String, in space: NamespaceHandle) throws -> [UInt8]? {
    guard pending.isEmpty else { return try payload(of: EncodedKey(text), in: space) }
    let tag = KeyTag.text.rawValue
    let generation = try generation()
    let ((hash, number), found) = text.withUTF8Span { bytes in
      let (hash, number) = place(of: tag, bytes, in: space, generation)
      return ((hash, number), remembered(tag, bytes, hash, number, in: generation)?.value.payload)
    }
    if let found { return found }
    return try Self.payload(
      of: lookup(EncodedKey(text), in: space, known: 0, at: (generation, hash, number)), in: space)
  }

  private static func payload(of lookup: Lookup, in space: NamespaceHandle) throws -> [UInt8]? {
    switch lookup.outcome {
    case .found(let value): return value.payload
    case .absent, .unchanged: return nil
    case .unreadable(let text): throw StoreError.unreadable(text, in: space.name)
    }
  }

  /// Reads a key from the tree.
  ///
  /// - Parameter place: Where it is in the generation in force so far.
  private func lookup(
    _ key: EncodedKey, in space: NamespaceHandle, known: UInt64,
    at place: (generation: Generation, hash: UInt64, number: UInt32)
  ) throws -> Lookup {
    var retries = 0
    while true {
      var damage: (text: String, label: UInt64)?
      let lookup = try reading("read") { generation in
        let (hash, number) =
          generation === place.generation
          ? (place.hash, place.number) : space.place(of: key, in: generation)
        return try generation.withSnapshot { transaction, snapshot in
          let sealed = Mutant.filedOneHigh.isActive ? snapshot + 1 : snapshot
          damage = nil
          let outcome = try find(
            key, hash, number, space, generation, transaction, known: known, seal: ~sealed,
            damage: &damage)
          if generation.table.minimumValidReadVersion(slot: slotIndex(hash)) > snapshot {
            noteUncommittedStamp()
          }
          return Lookup(outcome: outcome, hash: hash, seal: ~sealed, generation: generation)
        }
      }
      guard let found = damage else {
        count(lookup)
        return lookup
      }
      // As with pages: read again before it is believed. An unreadable header stays unreadable.
      if retries < StoreCore.damageRetries, found.label != 0 {
        retries += 1
        Event().wait(nanoseconds: StoreCore.damagePause)
        continue
      }
      reportDamage(found.text, found.label, key, space, lookup.generation)
      return Lookup(
        outcome: .unreadable(found.text), hash: lookup.hash, seal: lookup.seal,
        generation: lookup.generation)
    }
  }

  /// How often, and after which pause, damage is read again in a new snapshot before it is reported:
  /// pages written by another process may become visible late on some kernels.
  static let damageRetries = 3
  static let damagePause: UInt64 = 1_000_000
  /// How many generations one operation may fence. A successor is new, so damage in it as well is of
  /// the disk, or of the program.
  private static let fencesPerRead = 2

  /// Runs what only reads. This is the one policy for damage that a read meets.
  ///
  /// Damage is read again in up to three new snapshots. After that a cache fences the generation in
  /// which it was met, and only that one, and reads in its successor; a store that survives system
  /// crashes throws. No error of the layers below reaches the caller.
  ///
  /// - Throws: ``StoreError/Code/damaged`` also when two generations in a row were damaged.
  func reading<R>(_ operation: String, _ body: (Generation) throws -> R) throws -> R {
    var retries = 0
    var fences = 0
    var met: Generation?
    while true {
      do {
        return try withGeneration { generation in
          if met !== generation {
            met = generation
            retries = 0
          }
          return try body(generation)
        }
      } catch let error as LMDBError {
        guard error.isDamage, let damaged = met else {
          throw StoreError(wrapping: error, during: operation, path: directory.path)
        }
        retries += 1
        if retries > StoreCore.damageRetries {
          guard fences < StoreCore.fencesPerRead else {
            throw StoreError(wrapping: error, during: operation, path: directory.path)
          }
          fences += 1
          try abandon(damaged, because: error)
        }
      }
      Event().wait(nanoseconds: StoreCore.damagePause)
    }
  }

  /// Leaves a generation whose file cannot be read; a durable store throws.
  private func abandon(_ generation: Generation, because error: LMDBError) throws {
    do {
      try fence(generation, because: error)
    } catch EngineSignal.generationChanged {
      try move(from: generation)
    }
  }

  /// Reads several keys in one snapshot. What seems damaged is read again alone.
  package func lookup(_ keys: [EncodedKey], in space: NamespaceHandle) throws -> [Lookup] {
    let lookups: [Lookup?] = try reading("read") { generation in
      try generation.withSnapshot { transaction, snapshot in
        try keys.map { key in
          var damage: (text: String, label: UInt64)?
          let (hash, number) = space.place(of: key, in: generation)
          let outcome = try find(
            key, hash, number, space, generation, transaction, known: 0, seal: ~snapshot,
            damage: &damage)
          if damage != nil { return nil }
          return Lookup(outcome: outcome, hash: hash, seal: ~snapshot, generation: generation)
        }
      }
    }
    return try zip(keys, lookups).map { key, found in
      guard let found else { return try lookup(key, in: space) }
      count(found)
      return found
    }
  }

  private func count(_ lookup: Lookup) {
    // Between reading and filing anything may happen.
    fault(.beforeFill)
    switch lookup.outcome {
    case .found, .unchanged:
      lookup.generation.count(.storeHits)
      lookup.generation.table.touch(hash: lookup.hash)
    case .absent, .unreadable: lookup.generation.count(.misses)
    }
  }

  private func find(
    _ key: EncodedKey, _ hash: UInt64, _ knownNumber: UInt32, _ space: NamespaceHandle,
    _ generation: Generation, _ transaction: borrowing ReadTransaction, known: UInt64,
    seal: UInt64, damage: inout (text: String, label: UInt64)?
  ) throws -> Lookup.Outcome {
    guard let record = try transaction.value(forKey: hash, in: generation.entries) else {
      return .absent
    }
    record.prefetch(limit: 1024)
    var number = knownNumber
    if number == 0 {
      guard let found = try self.number(of: space, generation, transaction) else { return .absent }
      number = found
    }
    var offset = 0
    while offset < record.byteCount {
      let header: EntryHeader
      do throws(EntryHeader.Defect) {
        header = try EntryHeader(in: record, at: offset)
      } catch {
        damage = (
          error == .newerFormat
            ? "the entry was written by a newer version" : "the entry's header is damaged", 0
        )
        return .absent
      }
      let start = offset
      offset += header.storedLength
      guard
        header.namespace == number, header.keyTag == key.tag,
        header.keyLength == key.bytes.count
      else { continue }
      if !header.isChunked {
        let content = start + EntryHeader.size
        let keyEnd = content + header.keyLength
        let stored = record.slice(content..<keyEnd)!
        guard stored.equals(key.bytes) else {
          // Another key of the same hash, unless it is this one and damaged.
          let payload = record.slice(keyEnd..<(keyEnd + header.payloadLength))!
          let hashed = XXH64.hash(payload, seed: XXH64.hash(stored))
          if !header.isIntact(contentHash: hashed) {
            damage = ("the entry's checksum is wrong", header.label)
          }
          continue
        }
        damage = nil
        guard try isAlive(header, number, generation, transaction) else { return .absent }
        if known != 0, header.label == known { return .unchanged }
        // The copy is judged, not the page: somebody may be writing to that.
        let payload = record.slice(keyEnd..<(keyEnd + header.payloadLength))!.copied()
        let hashed = EntryHeader.contentHash(key: key.bytes, payload: payload)
        guard header.isIntact(contentHash: hashed) else {
          damage = ("the entry's checksum is wrong", header.label)
          return .absent
        }
        generation.places?.remember(
          record.slice(start..<offset)!, of: hash, seal: seal, checksum: header.checksum)
        return .found(StoredValue(payload, header))
      }
      // The key is in the chunks as well: small price, large entries.
      guard try isAlive(header, number, generation, transaction) else { continue }
      let reference = try? ChunkReference(in: record, at: start, of: header)
      let read: Record.ChunkedPayload? = try reference.map {
        try Record.chunkedPayload($0, of: header, key: key.bytes) { id, body in
          guard let chunk = try transaction.value(forKey: id, in: generation.chunks) else {
            return false
          }
          return body(chunk)
        }
      }
      if case .ofOtherKey = read { continue }
      guard case .payload(let payload) = read else {
        damage = ("a chunk of the entry is missing", header.label)
        return .absent
      }
      if known != 0, header.label == known { return .unchanged }
      let hashed = EntryHeader.contentHash(key: key.bytes, payload: payload)
      guard header.isIntact(contentHash: hashed) else {
        damage = ("the entry's checksum is wrong", header.label)
        return .absent
      }
      return .found(StoredValue(payload, header))
    }
    return .absent
  }

  /// The namespace's number in this snapshot; `nil`: nothing was ever stored in it.
  func number(
    of space: NamespaceHandle, _ generation: Generation, _ transaction: borrowing ReadTransaction
  ) throws -> UInt32? {
    let known = space.number(in: generation)
    if known != 0 { return known }
    let key = NamespaceRecord.nameKey(space.nameBytes)
    guard let bytes = try transaction.value(forKey: key, in: .main) else { return nil }
    guard let number = NamespaceRecord.number(in: bytes, name: space.nameBytes) else {
      throw LMDBError(.corrupted, during: "a namespace's name")
    }
    space.learn(number: number, in: generation)
    return number
  }

  /// Whether an entry is neither expired nor of an epoch that was cleared.
  func isAlive(
    _ header: EntryHeader, _ number: UInt32, _ generation: Generation,
    _ transaction: borrowing ReadTransaction
  ) throws -> Bool {
    if header.expires != EntryHeader.never, header.isExpired(at: options.clock.now()) {
      return false
    }
    // Written after the last clearing anybody announced: alive. Otherwise this snapshot's own
    // record decides.
    if header.label > generation.table.namespaceLabel(number) { return true }
    guard let bytes = try transaction.value(forKey: NamespaceRecord.key(number), in: .main) else {
      return true
    }
    guard let epoch = NamespaceRecord.epoch(in: bytes) else {
      throw LMDBError(.corrupted, during: "a namespace's record")
    }
    return epoch == header.epoch
  }

  private func reportDamage(
    _ text: String, _ label: UInt64, _ key: EncodedKey, _ space: NamespaceHandle,
    _ generation: Generation
  ) {
    generation.count(.damagedEntries)
    generation.count(.misses)
    notify(.damagedEntry("namespace \"\(space.name)\": \(text)"))
    guard options.durability == .cache, label != 0 else { return }
    // Inside a user's transaction nothing can be queued; the next reader removes it.
    guard bodyThread.load(ordering: .relaxed) != OSThread.token else { return }
    try? enqueueWriteBehind(WriteRequest(.removeDamaged(label: label), space: space, key: key))
  }
}
