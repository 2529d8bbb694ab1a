// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
package import LarderObjectEngine

extension DynamicObjects {
  /// Exports every object of a type as a line of lossless JSON, in the order of insertion, in one
  /// snapshot.
  ///
  /// - Parameters:
  ///   - type: The record of the type.
  ///   - header: Receives the first line, the schema (`ObjectSchemaHeader.swift`), before all
  ///     others.
  ///   - body: Receives a line without its end, and the number of objects of the type.
  /// - Returns: The number of objects that were omitted because they cannot be read. Each is
  ///   reported.
  /// - Throws: ``DynamicObjectError``, `StoreError`, and the errors of the closures.
  package func export(
    _ type: ObjectTypeRecord, header: (_ line: String) throws -> Void = { _ in },
    _ body: (_ line: String, _ total: Int) throws -> Void
  ) throws -> Int {
    let durability = try SharedStore.durability(ofStoreAt: store.path)
    var answered = 0
    var leftOut = 0
    try reading("export", hasAnswered: { answered > 0 }) { snapshot in
      leftOut = 0
      // The record in this snapshot.
      let type = try ObjectReading.type(named: type.name, snapshot) ?? type
      let schema = try ObjectSchemaHeader(type, durability: durability).text()
      let total = Int(clamping: try ObjectReading.books(type.number, snapshot).count)
      try ObjectReading.scan(type: type.number, in: snapshot) { found in
        switch found {
        case .success(let stored):
          guard let object = object(stored) else {
            leftOut += 1
            return true
          }
          answered += 1
          if answered == 1 { try header(schema) }
          try body(Self.line(object), total)
        case .failure(let damage):
          tell(damage)
          leftOut += 1
        }
        return true
      }
      if answered == 0 { try header(schema) }
    }
    return leftOut
  }

  /// Returns the line of an object, with its id if that does not follow from the field "id".
  private static func line(_ object: DynamicObject) -> String {
    let line = LosslessJSONWriter.text(object.value)
    if IndexRuleEvidence.id(of: object.value) == object.id { return line }
    return "[\(CBORValue.text(object.id).jsonText()),\(line)]"
  }
}
