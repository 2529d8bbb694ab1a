// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderLMDB
internal import LarderSystem
internal import Synchronization

// READING FROM LMDB
//
// The reader's half of the coherence protocol, for a value that is not in memory. The writer's half
// (W0 to W5) is in `StoreCore+Commit.swift`; the rule for a value in memory is in
// `MemoryTier.swift`.
//
//   R1  Renew a pooled read transaction: N = base + transaction id.          Generation.swift
//   R2  After a full fence: if the generation is fenced, switch              ReaderPool.swift
//       generations. If a writer announced more than N + 1, two commits
//       can have begun to overwrite the meta page that LMDB copied the
//       roots from: renew again.
//   R3  Find the entry, copy it and verify its checksum. A memory tier       this file,
//       inserts the value with the read version N, unless it holds a         EntryReader.swift
//       newer one.

/// The result of a look-up in a store, with its snapshot.
package struct Lookup: Sendable {
  /// The possible outcomes of a look-up.
  package enum Outcome: Sendable {
    case absent
    /// A negative entry, which is passed, says that the key has no value.
    case knownAbsent(StoredValue)
    /// The entry is still the one that the caller has decoded.
    case unchanged
    case found(StoredValue)
    /// An entry exists but cannot be read.
    case unreadable(String)
  }

  package let outcome: Outcome
  package let hash: UInt64
  /// The snapshot's commit version, inverted: the value that `SharedTable.isCurrent` compares.
  package let readVersion: UInt64
  package let generation: Generation

  /// The stamp slot of the key.
  package var slot: StampSlot { StampSlot(hash: hash) }
}

/// The verified copy of an entry's value.
package struct StoredValue: Sendable {
  package let payload: [UInt8]
  package let codec: UInt16
  /// The commit version of the transaction that wrote the entry.
  package let commitVersion: UInt64
  package let created: Int64
  package let expires: Int64
  /// The lifetime of a sliding expiration in milliseconds, or zero.
  package let lifetime: Int64
  /// The time in milliseconds for which the entry is kept after its expiration, for a refresh.
  let kept: Int64
  /// The time in milliseconds that the computation of the value took, or zero.
  package let computeTime: UInt32
  /// The hashes of the tags.
  package let tags: [UInt64]
  package let isPinned: Bool
  /// The version that a remote server has for the value, or zero.
  package let remoteVersion: UInt64
}

extension StoredValue {
  init(
    _ payload: [UInt8], _ header: EntryHeader, tags: [UInt64], remoteVersion: UInt64 = 0
  ) {
    self.init(
      payload: payload, codec: header.codec, commitVersion: header.commitVersion,
      created: header.created, expires: header.expires, lifetime: header.lifetime,
      kept: header.kept, computeTime: header.computeTime, tags: tags, isPinned: header.isPinned,
      remoteVersion: remoteVersion)
  }
}

extension StoreCore {
  /// Reads a key from the store (R1 to R3 of the protocol).
  ///
  /// - Parameters:
  ///   - known: The commit version of the entry that the caller has decoded, or zero. If it is still the
  ///     same entry, nothing is copied.
  ///   - includesKept: Whether an expired entry that is kept for a refresh is found as well.
  ///   - isRepeated: Whether the read repeats one that was counted, and is not counted itself.
  /// - Throws: ``StoreError``.
  package func lookup(
    _ key: EncodedKey, in space: NamespaceHandle, known: UInt64 = 0, includesKept: Bool = false,
    isRepeated: Bool = false
  ) throws -> Lookup {
    let start = beginRead()
    defer { if start != 0 { endRead(start) } }
    let generation = try generation()
    let ((hash, number), found) = key.bytes.withRawSpan { bytes in
      let (hash, number) = place(of: key.tag, bytes, in: space, generation)
      return (
        (hash, number),
        known == 0 && !isRepeated
          ? readCachedLocation(key.tag, bytes, hash, number, in: generation) : nil
      )
    }
    if let (value, readVersion) = found {
      return Lookup(
        outcome: .found(value), hash: hash, readVersion: readVersion, generation: generation)
    }
    return try lookup(
      key, in: space, .init(known: known, includesKept: includesKept, isRepeated: isRepeated),
      at: (generation, hash, number))
  }

  /// Returns only the payload of a key, or `nil`. Pending writes of this process override the
  /// store.
  func payload(of key: EncodedKey, in space: NamespaceHandle) throws -> [UInt8]? {
    if !pending.isEmpty, let record = queue.pendingWrite(of: key, in: space),
      try isWaiting(record, key, in: space)
    {
      if case .put(let content) = record.kind {
        return content.isAbsent || content.expires <= now ? nil : content.payload
      }
      if case .remove = record.kind { return nil }
    }
    return try Self.payload(of: lookup(key, in: space), in: space)
  }

  /// Returns only the payload of a text key, or `nil`. Borrows the bytes of the text, and makes no
  /// key of them if the location cache has the entry.
  func payload(ofText text: String, in space: NamespaceHandle) throws -> [UInt8]? {
    guard pending.isEmpty else { return try payload(of: EncodedKey(text), in: space) }
    let start = beginRead()
    defer { if start != 0 { endRead(start) } }
    let tag = KeyTag.text.rawValue
    let generation = try generation()
    let ((hash, number), found) = text.withUTF8Span { bytes in
      let (hash, number) = place(of: tag, bytes, in: space, generation)
      return (
        (hash, number), readCachedLocation(tag, bytes, hash, number, in: generation)?.value.payload
      )
    }
    if let found { return found }
    return try Self.payload(
      of: lookup(EncodedKey(text), in: space, .init(), at: (generation, hash, number)), in: space)
  }

  /// Returns the time at which a read begins, or zero if no monitor times it.
  @inline(__always)
  private func beginRead() -> UInt64 {
    guard let monitors else { return 0 }
    return monitors.beginRead()
  }

  @inline(never)
  private func endRead(_ start: UInt64) { monitors?.endRead(start) }

  private static func payload(of lookup: Lookup, in space: NamespaceHandle) throws -> [UInt8]? {
    switch lookup.outcome {
    case .found(let value): return value.payload
    case .absent, .knownAbsent, .unchanged: return nil
    case .unreadable(let text): throw StoreError.unreadable(text, in: space.name)
    }
  }

  /// Reads a key from the tree.
  ///
  /// - Parameter place: The generation in which the caller computed the hash and the namespace
  ///   identifier.
  private func lookup(
    _ key: EncodedKey, in space: NamespaceHandle, _ search: EntrySearch,
    at place: (generation: Generation, hash: UInt64, number: UInt32)
  ) throws -> Lookup {
    // The snapshot that was read last, for the report of a damaged entry.
    var last: Lookup?
    do {
      let lookup = try withSnapshot("read") { snapshot in
        let generation = snapshot.generation
        let found: (hash: UInt64, number: UInt32) =
          generation === place.generation
          ? (place.hash, place.number) : space.place(of: key, in: generation)
        let readVersion =
          Mutant.filedOneHigh.isActive ? ~(snapshot.commitVersion + 1) : snapshot.readVersion
        func result(_ outcome: Lookup.Outcome) -> Lookup {
          Lookup(
            outcome: outcome, hash: found.hash, readVersion: readVersion, generation: generation)
        }
        let outcome: Lookup.Outcome
        do {
          outcome = try find(
            key, at: found, in: space, snapshot, search, readVersion: readVersion)
        } catch let damage as DamagedEntry {
          last = result(.unreadable(damage.text))
          throw damage
        }
        let newest = generation.table.minimumValidReadVersion(
          slot: StampSlot(hash: found.hash))
        if newest > snapshot.commitVersion { noteUncommittedStamp() }
        return result(outcome)
      }
      count(lookup, search)
      return lookup
    } catch let damage as DamagedEntry {
      // The read that this one repeats has reported it.
      if !search.isRepeated { reportDamage(damage, key, space, last!.generation) }
      return last!
    }
  }

  /// Reads several keys in one snapshot. Keys that seem damaged are read again separately.
  package func lookup(_ keys: [EncodedKey], in space: NamespaceHandle) throws -> [Lookup] {
    let lookups: [Lookup?] = try withSnapshot("read") { snapshot in
      try keys.map { key in
        let place = space.place(of: key, in: snapshot.generation)
        do {
          let outcome = try find(
            key, at: place, in: space, snapshot, .init(), readVersion: snapshot.readVersion)
          return Lookup(
            outcome: outcome, hash: place.hash, readVersion: snapshot.readVersion,
            generation: snapshot.generation)
        } catch is DamagedEntry {
          return nil
        }
      }
    }
    return try zip(keys, lookups).map { key, found in
      guard let found else { return try lookup(key, in: space) }
      count(found, EntrySearch())
      return found
    }
  }

  private func count(_ lookup: Lookup, _ search: EntrySearch) {
    // Any event may happen between the read and the insert.
    fault(.beforeFill)
    if search.isRepeated { return }
    switch lookup.outcome {
    case .found(let value):
      lookup.generation.count(.storeHits)
      recordUse(of: value, hash: lookup.hash, in: lookup.generation)
    case .unchanged:
      lookup.generation.count(.storeHits)
      lookup.generation.table.touch(hash: lookup.hash)
      lookup.generation.table.sample(lookup.hash, .storeHit)
    case .knownAbsent:
      lookup.generation.count(.absentHits)
      lookup.generation.table.touch(hash: lookup.hash)
      lookup.generation.table.sample(lookup.hash, .storeHit)
    case .absent, .unreadable:
      lookup.generation.count(.misses)
      lookup.generation.table.sample(lookup.hash, .miss)
    }
  }

  /// Counts a read that found nothing, because this process has a removal of the key in its queue.
  package func countMiss() { (try? generation())?.count(.misses) }

  /// Records the use of an entry that was read from the store's file.
  @inline(__always)
  func recordUse(of value: StoredValue, hash: UInt64, in generation: Generation) {
    generation.table.sample(hash, .storeHit)
    if value.lifetime == 0 { return generation.table.touch(hash: hash) }
    generation.table.touch(hash: hash, at: options.clock.now())
  }

  private func reportDamage(
    _ damage: DamagedEntry, _ key: EncodedKey, _ space: NamespaceHandle, _ generation: Generation
  ) {
    generation.count(.damagedEntries)
    generation.count(.misses)
    notify(.damagedEntry("namespace \"\(space.name)\": \(damage.text)"))
    guard options.durability == .cache, damage.commitVersion != 0, !options.readsOnly else {
      return
    }
    // A write cannot be queued inside a user's transaction; the next reader removes the entry.
    guard bodyThread.load(ordering: .relaxed) != OSThread.token else { return }
    try? enqueueWriteBehind(
      WriteRequest(.removeDamaged(commitVersion: damage.commitVersion), space: space, key: key))
  }
}
