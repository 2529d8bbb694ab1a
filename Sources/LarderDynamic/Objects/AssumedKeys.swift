// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderObjectEngine

// UNIQUE INDEXES WITHOUT PROVEN KEYS
//
// The program builds such an index after the import, and could not complete it with two objects of one key. So an
// import rejects the second one, among its lines and those that are stored:
//
//   - by the keys of the declaration, where it has a rule (`IndexRule.swift`);
//   - otherwise by the indexed fields: equal values have equal keys, however a type encodes them. Different values
//     may have equal keys as well; only the program sees that. An index with a condition is left to the program.

/// The keys of unique indexes by their declaration, while no stored object proves that these are the
/// keys of the program.
final class AssumedKeys {
  /// A key that another object has.
  struct Conflict {
    let index: UInt32
    /// The key for an error.
    let text: String
    let holder: String
  }

  private struct Key: Hashable {
    let index: UInt32
    let bytes: [UInt8]
  }

  /// An index whose type encodes its keys in its own way.
  private struct FieldValues {
    let index: UInt32
    let paths: [FieldPath]
    let isMultiple: Bool

    init?(_ index: ObjectTypeRecord.Index) {
      guard index.isUnique, !index.isText, !index.definition.contains(" where "),
        !index.fields.isEmpty
      else { return nil }
      var paths: [FieldPath] = []
      for field in index.fields {
        guard let names = IndexRule.names(field) else { return nil }
        paths.append(FieldPath(names))
      }
      (self.index, self.paths) = (index.number, paths)
      isMultiple = index.definition.hasPrefix("each ")
    }

    /// Returns the values of the indexed fields; none if one of them is missing.
    func keys(of object: CBORValue) -> [[CBORValue]] {
      var values: [CBORValue] = []
      for path in paths {
        guard let value = path.value(in: object), value != .null, value != .undefined else {
          return []
        }
        values.append(value)
      }
      guard isMultiple else { return [values] }
      guard case .array(let elements)? = values.first?.untagged else { return [] }
      return elements.map { [$0] }
    }
  }

  private let rules: [IndexRule]
  private let others: [FieldValues]
  private let type: ObjectTypeRecord
  private let report: (StoredObject) -> DynamicObject?
  private var holders: [Key: String] = [:]
  private var keys: [String: [Key]] = [:]

  private var isEmpty: Bool { rules.isEmpty && others.isEmpty }

  /// - Parameters:
  ///   - rules: The rules of unique indexes that no object proves.
  ///   - foreign: The unique indexes without a rule.
  /// - Throws: `StoreError` and ``DynamicObjectError``.
  init(
    _ rules: [IndexRule], _ foreign: [ObjectTypeRecord.Index], of type: ObjectTypeRecord,
    in objects: DynamicObjects
  ) throws {
    self.rules = rules
    self.type = type
    others = foreign.compactMap(FieldValues.init)
    report = { objects.object($0) }
    if isEmpty { return }
    try objects.reading("import", hasAnswered: { false }) { snapshot in try read(snapshot) }
  }

  /// Reads the keys of all stored objects. An object that cannot be read has been reported, and has none.
  private func read(_ snapshot: borrowing Snapshot) throws {
    (holders, keys) = ([:], [:])
    try ObjectReading.scan(type: type.number, in: snapshot) { found in
      guard case .success(let stored) = found, let object = report(stored) else { return true }
      _ = add(object.value, id: object.id, keepsExisting: false)
      return true
    }
  }

  /// Adds the keys of an object, in place of those of an object with the same id.
  ///
  /// - Returns: The key that another object has, or `nil` if none has.
  func add(_ value: CBORValue, id: String, keepsExisting: Bool) -> Conflict? {
    if isEmpty || keepsExisting && keys[id] != nil { return nil }
    var made: [(key: Key, text: String)] = []
    for rule in rules {
      // An object without a key of the rule does not fit the type: the index has no entry of it.
      guard let own = try? rule.keys(of: value) else { continue }
      for key in own where !key.isEmpty {
        let elements = IndexKeyElement.elements(of: key.bytes)?.map(\.description)
        made.append(
          (
            Key(index: key.index, bytes: key.bytes),
            elements?.joined(separator: ", ") ?? "truncated"
          ))
      }
    }
    for other in others {
      for values in other.keys(of: value) {
        made.append(
          (
            Key(index: other.index, bytes: values.flatMap(\.encoded)),
            values.map { $0.jsonText(pretty: false) }.joined(separator: ", ")
          ))
      }
    }
    for (key, text) in made {
      if let holder = holders[key], holder != id {
        return Conflict(index: key.index, text: text, holder: holder)
      }
    }
    for key in keys[id] ?? [] where holders[key] == id { holders[key] = nil }
    for (key, _) in made { holders[key] = id }
    keys[id] = made.map(\.key)
    return nil
  }
}
