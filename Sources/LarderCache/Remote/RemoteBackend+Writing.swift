// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine

extension RemoteBackend {
  func write(_ value: Value?, for key: Key, _ attributes: EntryAttributes) throws -> Bool {
    try waiting { try await self.writeAsync(value, for: key, attributes) }
  }

  func writeAsync(
    _ value: Value?, for key: Key, _ attributes: EntryAttributes
  ) async throws -> Bool {
    guard value != nil || attributes.isAbsent else { return try await removeAsync([key]) > 0 }
    try await write([prepare(value, key, attributes)])
    return true
  }

  /// Writes at once: a write that waits in this process would not be known to the server.
  func enqueue(
    _ value: Value?, for key: Key, _ attributes: EntryAttributes
  ) throws -> QueuedWrite? {
    _ = try write(value, for: key, attributes)
    return nil
  }

  func setAll(
    _ values: some Sequence<(key: Key, value: Value)>, _ attributes: EntryAttributes
  ) throws {
    let writes = try values.map { try prepare($0.value, $0.key, attributes) }
    try waiting { try await self.write(writes) }
  }

  func setAllAsync(
    _ values: some Sequence<(key: Key, value: Value)>, _ attributes: EntryAttributes
  ) async throws {
    try await write(values.map { try prepare($0.value, $0.key, attributes) })
  }

  func remove(_ keys: some Sequence<Key>) throws -> Int {
    let keys = Array(keys)
    return try waiting { try await self.removeAsync(keys) }
  }

  func removeAsync(_ keys: some Sequence<Key>) async throws -> Int {
    let places = try copies.places("remove", keys.map { EncodedKey($0) })
    for place in places { place.noteChange() }
    let encoded = places.map(\.store.encoded)
    let count: Int
    do {
      count = try await copies.awaiting(places.first) {
        try await service.remove(places.map(\.remote), options.acknowledgement)
      }
    } catch {
      places.first?.record.count(.failures)
      await copies.forget(encoded, after: error)
      throw error
    }
    try await copies.remove(encoded)
    return count
  }

  func removeAll() throws { try waiting { try await self.removeAllAsync() } }

  func removeAllAsync() async throws {
    let core = try local.open("removeAll").core
    try await copies.awaiting { try await service.removeAll(in: context.namespace) }
    try core.generation().table.noteRemoteChanges()
    try await local.removeAllAsync()
  }

  func removeAll(tagged tag: String) throws {
    try waiting { try await self.removeAllAsync(tagged: tag) }
  }

  func removeAllAsync(tagged tag: String) async throws {
    let core = try local.open("removeAll").core
    // The lengths are checked before the server is asked.
    _ = try Tag.bytes(of: tag, during: "removeAll")
    try await copies.awaiting {
      try await service.removeAll(tagged: tag, in: context.namespace)
    }
    try core.generation().table.noteRemoteChanges()
    try await local.removeAllAsync(tagged: tag)
  }

  // MARK: Steps

  /// A write that is ready to be sent.
  struct PreparedWrite: Sendable {
    let place: RemoteCopies.Place
    let write: RemoteWrite
    var refresh: (kept: Int64, computeTime: UInt32) = (0, 0)
  }

  func prepare(
    _ value: Value?, _ key: Key, _ attributes: EntryAttributes
  ) throws -> PreparedWrite {
    let place = try place("set", key)
    try attributes.validate()
    if attributes.isPinned || attributes.expiration.slidingLifetime != 0 {
      throw StoreError.unsupported(
        "set", "Values of a remote server are not pinned, and do not slide. Pass a lifetime.")
    }
    let now = place.store.core.now
    let deadline = try attributes.expiration.deadline(now: now)
    let (codec, payload) =
      if let value {
        try StandardCoding.encode(value, codec: context.options.codec)
      } else {
        (CodecIdentifier.plainBytes, [UInt8]())
      }
    let version = RemoteVersion(
      try RemoteVersion.next(in: place.store.core.generation()),
      lifetime: deadline == EntryHeader.never ? nil : max(deadline - now, 1))
    let entry = RemoteEntry(
      version, codec: codec.rawValue, payload: payload, isAbsent: value == nil,
      tags: attributes.tags.reduce(into: []) { tags, tag in
        if !tags.contains(where: { $0.utf8.elementsEqual(tag.utf8) }) { tags.append(tag) }
      })
    return PreparedWrite(
      place: place, write: RemoteWrite(place.remote, entry),
      refresh: (attributes.kept, attributes.computeTime))
  }

  private func write(_ writes: [PreparedWrite]) async throws {
    for write in writes { write.place.noteChange() }
    let fences = writes.map { copies.fence($0.place) }
    do {
      try await copies.awaiting(writes.first?.place) {
        try await service.write(writes.map(\.write), options.acknowledgement)
      }
    } catch {
      // Whether the server has the values is not known.
      writes.first?.place.record.count(.failures)
      await copies.forget(writes.map(\.place.store.encoded), after: error)
      throw error
    }
    writes.first?.place.record.count(.writes, writes.count)
    await keep(zip(writes, fences).map { ($0, $1) })
  }

  /// Stores in the host what the server has acknowledged. If the server's message that the key has changed
  /// came first, it may be about a later write: the next read asks the server.
  func keep(_ writes: [(write: PreparedWrite, fence: RemoteFence)]) async {
    do {
      let fills = try writes.map { write, fence in
        RemoteCopies.Fill(
          key: write.place.store.encoded,
          content: try copies.content(write.write.entry, write.place.store.encoded, write.refresh),
          fence: fence)
      }
      await copies.storeOrRemove(fills)
    } catch {
      report(error)
      await copies.forget(writes.map(\.write.place.store.encoded))
    }
  }
}
