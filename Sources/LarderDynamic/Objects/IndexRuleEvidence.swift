// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderObjectEngine

/// The evidence of stored objects for the index key rules of a type. Every object contains the
/// index keys that a program computed for it, so objects confirm or contradict a rule.
struct IndexRuleEvidence: Sendable {
  /// The rules that no object contradicts, of complete and incomplete indexes.
  private(set) var rules: [UInt32: IndexRule] = [:]
  /// The reasons why other indexes have no rule, by the identifier of the index.
  private(set) var foreign: [UInt32: String] = [:]
  /// The positions of the rule's fields that the keys of an object prove, by the identifier of the
  /// index.
  private var proven: [UInt32: Set<Int>] = [:]
  /// The field that contains the id, according to all examined objects.
  private(set) var idField: IDField = .unknown
  private(set) var seen = 0

  enum IDField: Sendable, Hashable {
    /// No object was examined.
    case unknown
    case stored
    /// The id does not follow from a field.
    case none
  }

  /// The number of oldest and of newest objects to examine.
  static let sample = 32

  init(
    _ record: ObjectTypeRecord, sample: Int = Self.sample, _ snapshot: borrowing Snapshot
  ) throws {
    for index in record.indexes where !index.fields.isEmpty {
      do throws(IndexRule.Foreign) {
        rules[index.number] = try IndexRule(index)
      } catch {
        foreign[index.number] = error.reason
      }
    }
    for backwards in [false, true] {
      var sequences: [UInt64] = []
      try ObjectReading.scan(
        type: record.number, backwards: backwards, in: snapshot
      ) { found in
        if case .success(let stored) = found { sequences.append(stored.sequence) }
        return sequences.count < sample
      }
      for sequence in sequences {
        // A damaged object is no evidence.
        guard
          let moving = try? ObjectReading.moving(
            type: record.number, sequence: sequence, in: snapshot),
          let value = try? CBORValue(parsing: moving.stored.bytes)
        else { continue }
        examine(moving, value, record)
      }
    }
  }

  private mutating func examine(
    _ moving: MigratingObject, _ value: CBORValue, _ record: ObjectTypeRecord
  ) {
    seen += 1
    let id = String(decoding: moving.stored.id, as: UTF8.self)
    if Self.id(of: value) == id {
      if idField == .unknown { idField = .stored }
    } else {
      idField = .none
    }
    for (number, rule) in rules {
      let own = Set(moving.keys.filter { $0.index == number })
      let index = record.indexes.first { $0.number == number }!
      // The object is not in the index yet, or an import guessed its key.
      if let builtTo = index.builtTo, moving.stored.sequence > builtTo { continue }
      // A program that does not declare the index stored the object.
      if record.allNotes(for: [index]).contains(where: moving.keys.contains) { continue }
      if let made = try? rule.keys(of: value), Set(made) == own {
        for position in rule.fields.indices
        where !proven[number, default: []].contains(position)
          && own.contains(where: { !$0.isEmpty })
          && rule.isProven(position, by: own, of: value)
        {
          proven[number, default: []].insert(position)
        }
      } else {
        rules[number] = nil
        foreign[number] = "the keys that a program computed do not follow from the stored field"
      }
    }
  }

  /// Returns whether stored objects prove that a field of a rule is the indexed one.
  func isProven(_ position: Int, of rule: IndexRule) -> Bool {
    proven[rule.number]?.contains(position) ?? false
  }

  /// Returns the rule of an index, or the reason why a query cannot use the index.
  func usableRule(for index: ObjectTypeRecord.Index) -> Result<IndexRule, IndexRule.Foreign> {
    guard let rule = rules[index.number] else {
      return .failure(.init(reason: foreign[index.number] ?? "its declaration cannot be parsed"))
    }
    for (position, field) in rule.fields.enumerated() where !isProven(position, of: rule) {
      return .failure(
        .init(reason: "no stored object shows that it is over \(field.path) and no other field"))
    }
    guard index.isComplete else { return .failure(.init(reason: "it is not complete yet")) }
    return .success(rule)
  }

  /// Returns the id of an object with this value, or `nil` if the id does not follow from the
  /// value.
  static func id(of value: CBORValue) -> String? {
    switch ComparableValue(FieldPath(["id"]).value(in: value)) {
    case .text(let text): composed(text)
    case .integer(let number): String(number)
    case .uuid(let bytes): KeyTextFormat.display(tag: .uuid, bytes: bytes)
    case .bytes(let bytes): KeyTextFormat.display(tag: .bytes, bytes: bytes)
    case .real(let number): KeyTextFormat.display(tag: .real, bytes: number.keyBytes)
    case .boolean(let value): KeyTextFormat.display(tag: .boolean, bytes: value.keyBytes)
    case .date(let seconds): KeyTextFormat.display(tag: .date, bytes: seconds.keyBytes)
    default: nil
    }
  }
}
