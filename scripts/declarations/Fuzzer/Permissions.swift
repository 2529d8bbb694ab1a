// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Which errors the documentation permits a program, because of the other one's declaration.

struct Permissions {
  /// The fields and indexes that differ so that a program may be refused; an error names one of them.
  private(set) var differences: Set<String> = []
  private(set) var mayBeUnreadable = false
  private(set) var isUnique = false
  private(set) var mayBeNewer = false

  init(of program: Int, in pair: Pair) {
    let (own, other) = (pair.programs[program], pair.programs[1 - program])
    mayBeNewer = own.version < other.version
    for name in Set(own.fields.map(\.stored) + other.fields.map(\.stored)) {
      switch (own.field(name), other.field(name)) {
      case (let mine?, let theirs?):
        compare(mine.shape, theirs.shape, name)
        // A program that needs the field, and one that may leave it out.
        if own.requires(mine) != other.requires(theirs) { refuse(name) }
      case (let mine?, nil): if own.requires(mine) { refuse(name) }
      case (nil, let theirs?): if other.requires(theirs) { refuse(name) }
      case (nil, nil): break
      }
    }
    if own.version != other.version { refuse("version") }
    let references = Set(own.fields.filter { $0.shape == .reference }.map(\.stored))
    if other.fields.contains(where: { $0.shape == .reference && !references.contains($0.stored) }) {
      differences.insert("references")
    }
    let (mine, theirs) = (own.allIndexes, other.allIndexes)
    for name in Set((mine + theirs).map(\.name)) {
      let first = mine.first { $0.name == name }
      let second = theirs.first { $0.name == name }
      isUnique = isUnique || first?.isUnique == true
      let isSame = first == second && first.map { own.keys(of: $0) == other.keys(of: $0) } ?? true
      let isAnyUnique = first?.isUnique == true || second?.isUnique == true
      if (first != nil && second != nil && !isSame) || (isAnyUnique && !isSame) {
        differences.insert(name)
        differences.formUnion((first?.fields ?? []) + (second?.fields ?? []))
        // An index is changed only by a program that declares every field.
        for field in other.fields where own.field(field.stored) == nil {
          differences.insert(field.stored)
        }
        for field in own.fields where other.field(field.stored) == nil {
          differences.insert(field.stored)
        }
      }
    }
  }

  private mutating func refuse(_ name: String) {
    differences.insert(name)
    mayBeUnreadable = true
  }

  private mutating func compare(_ own: Shape, _ other: Shape, _ name: String) {
    switch (own, other) {
    case (.optional(let own), .optional(let other)): compare(own, other, name)
    case (.choice(_, let ofText, let mine), .choice(_, let otherText, let theirs)):
      if ofText != otherText { refuse(name) } else if theirs > mine { mayBeUnreadable = true }
    case (.nested(_, let mine), .nested(_, let theirs)):
      for field in mine {
        guard let match = theirs.first(where: { $0.stored == field.stored }) else {
          if !field.shape.isOptional, field.fallback == nil { refuse(name) }
          continue
        }
        compare(field.shape, match.shape, name)
        let (needs, otherNeeds) = (field.isRequiredMember, match.isRequiredMember)
        if needs, !otherNeeds { refuse(name) }
      }
    case (.list(let mine), .list(let theirs)):
      compare(mine, theirs, name)
      if mine != theirs { differences.insert(name) }
    default: if own != other { refuse(name) }
    }
  }

  /// Returns why an error is against the rules, or `nil`.
  func objection(to failure: Answer.Failure, _ operation: Request.Operation) -> String? {
    switch failure.code {
    case "schemaMismatch":
      if differences.isEmpty { return "no declaration differs so that a program may be refused" }
      let names = differences.subtracting(["version"])
      if names.contains(where: { failure.message.contains($0) }) { return nil }
      if differences.contains("version"), failure.message.contains("version") { return nil }
      return "the error names none of \(differences.sorted())"
    case "unreadable":
      if !mayBeUnreadable { return "the program can read all objects" }
      return failure.ids.isEmpty ? "the error names no object" : nil
    case "uniqueViolation": return isUnique ? nil : "the program has no unique index"
    case "newerSchema": return mayBeNewer ? nil : "no program has a newer version"
    case "migrationInProgress": return mayBeNewer ? nil : "there is no migration"
    case "notLoaded", "invalidSchema": return "an error that nothing explains"
    default: return "an error that nothing explains"
    }
  }
}

extension Field {
  fileprivate var isRequiredMember: Bool { !shape.isOptional && fallback == nil }
}

extension Declaration {
  /// Returns the properties of the fields of an index that determine its keys.
  fileprivate func keys(of index: IndexDeclaration) -> [String] {
    index.fields.map { stored in
      let field = field(stored)!
      let name = isMacro ? field.stored : field.property
      return "\(name): \(field.shape) \(fallback(field).map { "\($0.source)" } ?? "none")"
    }
  }
}
