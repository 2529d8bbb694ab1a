// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderObjectEngine

// The form of a value is what a program needs to decode it: the kinds of its parts, the names of its
// fields, and, of a text, number or Boolean by itself, the value, because it may be the raw value of
// a case. A value of a form that a program has stored at the same place is one that it can decode.

/// The forms of the values of a type's objects, as programs stored them.
final class StoredForms {
  private let objects: DynamicObjects
  private let type: ObjectTypeRecord
  private var found: [[String]: Set<String>] = [:]

  init(_ objects: DynamicObjects, _ type: ObjectTypeRecord) {
    (self.objects, self.type) = (objects, type)
  }

  /// Returns whether a stored object has a value of the same form at a place. The first question about
  /// a place reads all objects.
  ///
  /// - Throws: `StoreError` and ``DynamicObjectError``.
  func has(_ value: CBORValue, at path: [String]) throws -> Bool {
    if found[path] == nil { found[path] = try forms(at: path) }
    return found[path]!.contains(Self.form(value, isAlone: true))
  }

  private func forms(at path: [String]) throws -> Set<String> {
    try objects.reading("import", hasAnswered: { false }) { snapshot in
      var forms: Set<String> = []
      try ObjectReading.scan(type: type.number, in: snapshot) { found in
        guard case .success(let stored) = found,
          let value = try? CBORValue(parsing: stored.bytes)
        else { return true }
        Self.visit(value, path[...]) { forms.insert(Self.form($0, isAlone: true)) }
        return true
      }
      return forms
    }
  }

  private static func visit(
    _ value: CBORValue, _ path: ArraySlice<String>, _ body: (CBORValue) -> Void
  ) {
    guard let step = path.first else { return body(value) }
    switch value.untagged {
    case .array(let values) where step == CBORFieldLog.elementStep:
      for value in values { visit(value, path.dropFirst(), body) }
    case .map(let pairs):
      for pair in pairs where step == CBORFieldLog.valueStep || pair.key == .text(step) {
        visit(pair.value, path.dropFirst(), body)
      }
    default: break
    }
  }

  private static func form(_ value: CBORValue, isAlone: Bool = false) -> String {
    switch value {
    case .unsigned, .negative: isAlone ? value.jsonText() : "integer"
    case .text: isAlone ? value.jsonText() : "text"
    case .boolean: isAlone ? value.jsonText() : "boolean"
    case .float: "number"
    case .bytes: "bytes"
    case .null, .undefined: "null"
    case .simple: "simple"
    case .tagged(let tag, let content): "\(tag)(\(form(content)))"
    case .array(let values): "[\(Set(values.map { form($0) }).sorted().joined(separator: ","))]"
    case .map(let pairs):
      "{" + pairs.map { "\($0.key.jsonText()):\(form($0.value))" }.sorted().joined(separator: ",")
        + "}"
    }
  }
}
