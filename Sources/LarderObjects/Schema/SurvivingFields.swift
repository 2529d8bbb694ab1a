// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderObjectEngine
internal import LarderSystem
internal import Synchronization

// UNDECLARED FIELDS
//
// A newer program may have added a field to a type, or to a nested type, in the same version. An
// older one decodes the object without the field, and encodes it without the field. So a save over
// a stored object compares the two: a key of a stored map that is missing in the new map survives,
// unless the program was observed to write or to request it. In most saves the keys are the same,
// which a scan over both encodings shows; only if one is missing is the object encoded and, if
// necessary, the stored one decoded, to record which fields the program uses.
//
// Elements of arrays have no names. An element of the new array that equals a stored one, apart
// from the surviving fields, takes these fields over. If a stored element with such fields has no
// equal and the new array has elements that were not there before, one may be the changed form of
// the other: then nothing can be preserved safely, and the save fails.

/// The stored fields that a save preserves.
struct SurvivingFields {
  /// The new object with the surviving fields.
  private(set) var value: CBORValue
  /// The paths of the surviving fields.
  private(set) var paths: [[String]] = []
  /// The path of the first field that would be lost.
  private(set) var lost: [String]?
  private let knows: ([String]) -> Bool

  /// Determines the fields of a stored object that survive in a new one.
  ///
  /// - Parameter knows: Returns whether the program writes or requests the field at a path.
  init(of old: CBORValue, in new: CBORValue, knows: @escaping ([String]) -> Bool) {
    self.knows = knows
    value = new
    value = merged(old, new, [])
  }

  private mutating func merged(_ old: CBORValue, _ new: CBORValue, _ path: [String]) -> CBORValue {
    switch (old, new) {
    case (.map(let pairs), .map(var result)):
      for pair in pairs {
        let path = path + [Self.name(pair.key)]
        if let position = result.firstIndex(where: { $0.key == pair.key }) {
          result[position].value = merged(pair.value, result[position].value, path)
        } else if !knows(path) {
          result.append(pair)
          paths.append(path)
        }
      }
      return .map(result)
    case (.array(let items), .array(let result)) where !result.isEmpty:
      return .array(elements(items, result, path + ["[]"]))
    default: return new
    }
  }

  private mutating func elements(
    _ old: [CBORValue], _ new: [CBORValue], _ path: [String]
  ) -> [CBORValue] {
    let foreign = old.map { firstUnknown($0, path) }
    guard foreign.contains(where: { $0 != nil }) else { return new }
    var result = new
    var isFree = new.map { _ in true }
    var unmatched: [String]?
    for (item, unknown) in zip(old, foreign) {
      let reduced = reduced(item, path)
      let position = new.indices.first { isFree[$0] && Self.agrees(reduced, new[$0]) }
      if let position {
        isFree[position] = false
        if unknown != nil { result[position] = merged(item, new[position], path) }
      } else if let unknown {
        unmatched = unmatched ?? unknown
      }
    }
    // Elements that were only removed remove their fields.
    if let unmatched, isFree.contains(true) { lost = lost ?? unmatched }
    return result
  }

  /// Returns the path of the first field of a value that the program does not use.
  private func firstUnknown(_ value: CBORValue, _ path: [String]) -> [String]? {
    switch value {
    case .map(let pairs):
      for pair in pairs {
        let path = path + [Self.name(pair.key)]
        if !knows(path) { return path }
        if let found = firstUnknown(pair.value, path) { return found }
      }
      return nil
    case .array(let items):
      return items.lazy.compactMap { firstUnknown($0, path + ["[]"]) }.first
    default: return nil
    }
  }

  /// Returns a value without the fields that the program does not use.
  private func reduced(_ value: CBORValue, _ path: [String]) -> CBORValue {
    switch value {
    case .map(let pairs):
      return .map(
        pairs.compactMap { pair in
          let path = path + [Self.name(pair.key)]
          return knows(path) ? .init(pair.key, reduced(pair.value, path)) : nil
        })
    case .array(let items): return .array(items.map { reduced($0, path + ["[]"]) })
    default: return value
    }
  }

  /// Returns whether a value has every field of another, with the same value.
  private static func agrees(_ old: CBORValue, _ new: CBORValue) -> Bool {
    switch (old, new) {
    case (.map(let pairs), .map(let others)):
      pairs.allSatisfy { pair in
        others.contains { $0.key == pair.key && agrees(pair.value, $0.value) }
      }
    case (.array(let items), .array(let others)):
      items.count == others.count && zip(items, others).allSatisfy { agrees($0, $1) }
    default: old == new
    }
  }

  private static func name(_ key: CBORValue) -> String {
    if case .text(let name) = key { name } else { key.jsonText() }
  }
}

extension StoredField {
  /// Returns whether a value has every key of another, in the maps at every depth; `false` if it is
  /// not plain.
  static func covers(_ new: RawSpan, _ old: RawSpan) -> Bool { covers(new, 0, old, 0, depth: 0) }

  private static func covers(
    _ new: RawSpan, _ newOffset: Int, _ old: RawSpan, _ oldOffset: Int, depth: Int
  ) -> Bool {
    guard let before = head(old, oldOffset) else { return false }
    guard before.major == 4 || before.major == 5 else { return true }
    guard depth < 64, let after = head(new, newOffset) else { return false }
    // In another form, the program replaced the complete value; without elements, it removed them.
    if after.major != before.major || (before.major == 4 && after.argument == 0) { return true }
    return before.major == 5
      ? mapCovers(new, after, old, before, depth: depth)
      : arrayCovers(new, after, old, before, depth: depth)
  }

  private static func mapCovers(
    _ new: RawSpan, _ after: Head, _ old: RawSpan, _ before: Head, depth: Int
  ) -> Bool {
    var (newOffset, oldOffset) = (after.end, before.end)
    var left = after.argument
    for _ in 0..<before.argument {
      guard let oldValue = skip(old, oldOffset), let oldEnd = skip(old, oldValue),
        let key = old.slice(oldOffset..<oldValue)
      else { return false }
      var isFound = false
      while !isFound, left > 0 {
        guard let newValue = skip(new, newOffset), let newEnd = skip(new, newValue) else {
          return false
        }
        if new.slice(newOffset..<newValue)!.equals(key) {
          guard covers(new, newValue, old, oldValue, depth: depth + 1) else { return false }
          isFound = true
        }
        newOffset = newEnd
        left -= 1
      }
      if !isFound { return false }
      oldOffset = oldEnd
    }
    return true
  }

  /// Compares each stored element with the one at its position, or with the last.
  private static func arrayCovers(
    _ new: RawSpan, _ after: Head, _ old: RawSpan, _ before: Head, depth: Int
  ) -> Bool {
    var (newOffset, oldOffset) = (after.end, before.end)
    for position in 0..<before.argument {
      guard covers(new, newOffset, old, oldOffset, depth: depth + 1),
        let oldEnd = skip(old, oldOffset)
      else { return false }
      oldOffset = oldEnd
      if position + 1 < after.argument {
        guard let newEnd = skip(new, newOffset) else { return false }
        newOffset = newEnd
      }
    }
    return true
  }
}

extension ObjectTypeDescriptor {
  /// Preserves fields of the stored object that the program does not use.
  ///
  /// - Parameters:
  ///   - old: The stored object.
  ///   - oldKeys: The index keys of the stored object.
  ///   - context: Returns the loader for the references of the stored object while it is decoded.
  /// - Throws: ``ObjectError/Code/schemaMismatch`` if a field would be lost.
  func keepUnknownFields(
    of old: RawSpan, _ oldKeys: [ObjectIndexKey], in write: inout ObjectWrite, _ object: Object,
    _ record: ObjectTypeRecord, _ context: () -> ReferenceLoader
  ) throws {
    if write.bytes.withRawSpan({ StoredField.covers($0, old) }) { return }
    _ = try observeWriting(object)
    let bytes = old.copied()
    guard let stored = try? CBORValue(parsing: bytes),
      let new = try? CBORValue(parsing: write.bytes)
    else { return }
    let observed = schema.withLock { $0 }
    var fields = SurvivingFields(of: stored, in: new) { observed.knows($0) }
    guard !fields.paths.isEmpty || fields.lost != nil else { return }
    let log = CBORFieldLog()
    let isDecoded =
      (try? decode(bytes, id: write.id, ReferenceDecoder(context()), log: log)) != nil
    let all = schema.withLock { schema in
      schema.learn(log)
      return schema
    }
    fields = SurvivingFields(of: stored, in: new) { all.knows($0) }
    // If the stored object cannot be decoded, the used fields are unknown.
    if let lost = fields.lost, isDecoded {
      throw ObjectError(
        .schemaMismatch, type: name,
        "The stored object has the undeclared field \"\(lost.joined(separator: "."))\" in a "
          + "changed array element, and the save would drop it. Update the program.",
        ids: [String(decoding: write.id, as: UTF8.self)])
    }
    write.bytes = fields.value.encoded
    if let references = record.references {
      write.keys += ReferenceIndex.keys(oldKeys, of: references.number, at: fields.paths)
    }
  }
}
