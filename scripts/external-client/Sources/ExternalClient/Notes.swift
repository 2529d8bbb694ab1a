// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// One import is enough for objects: stores, options and values of indexes come with it.
import LarderObjects

enum Mood: String, Codable, Sendable, IndexValue {
  case good, bad
}

struct Note: Storable, Equatable {
  let id: Int
  var mood: Mood
  static let indexes = [Index<Note>("mood", \.mood)]
}

/// Stores and finds notes in the store of the recipes.
func countGoodNotes(in storage: SharedStore) async throws -> Int {
  let options = StoreOptions(durability: .durable, budget: nil, syncInterval: nil)
  guard options.durability != .cache else { return 0 }
  let notes = ObjectStore(storage, memory: CacheOptions())
  try await notes.save([Note(id: 1, mood: .good), Note(id: 2, mood: .bad)])
  return try await notes.objects(Note.self).where(\.mood == .good).count()
}
