// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderObjectEngine

/// The keys of unique indexes by their declaration, while no stored object proves that these are the
/// keys of the program.
///
/// The program builds such an index after the import, and could not complete it with two objects of one
/// key. So an import rejects the second one, among its lines and those that are stored.
final class AssumedKeys {
  /// A key that another object has.
  struct Conflict {
    let key: ObjectIndexKey
    let holder: String
  }

  private let rules: [IndexRule]
  private var holders: [ObjectIndexKey: String] = [:]
  private var keys: [String: [ObjectIndexKey]] = [:]

  /// - Throws: `StoreError` and ``DynamicObjectError``.
  init(_ rules: [IndexRule], of type: ObjectTypeRecord, in objects: DynamicObjects) throws {
    self.rules = rules
    if rules.isEmpty { return }
    try objects.reading("import", hasAnswered: { false }) { snapshot in
      holders = [:]
      keys = [:]
      try ObjectReading.scan(type: type.number, in: snapshot) { found in
        guard case .success(let stored) = found,
          let value = try? CBORValue(parsing: stored.bytes)
        else { return true }
        _ = add(value, id: String(decoding: stored.id, as: UTF8.self), keepsExisting: false)
        return true
      }
    }
  }

  /// Adds the keys of an object, in place of those of an object with the same id.
  ///
  /// - Returns: The key that another object has, or `nil` if none has.
  func add(_ value: CBORValue, id: String, keepsExisting: Bool) -> Conflict? {
    if rules.isEmpty || keepsExisting && keys[id] != nil { return nil }
    let made = rules.flatMap { (try? $0.keys(of: value)) ?? [] }.filter { !$0.isEmpty }
    for key in made {
      if let holder = holders[key], holder != id { return Conflict(key: key, holder: holder) }
    }
    for key in keys[id] ?? [] where holders[key] == id { holders[key] = nil }
    for key in made { holders[key] = id }
    keys[id] = made
    return nil
  }
}
