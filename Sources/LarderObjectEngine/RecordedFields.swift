// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// The fields in the record of a type, as programs wrote them: lines of a name and a kind, with "?"
/// if the field may be missing, for example "owner: text?".
package struct RecordedFields: Sendable, Hashable {
  package struct Field: Sendable, Hashable {
    package var kind: String
    package var isOptional: Bool

    package init(kind: String, isOptional: Bool) {
      self.kind = kind
      self.isOptional = isOptional
    }

    package var text: String { kind + (isOptional ? "?" : "") }
  }

  private static let limit = 256

  package var fields: [String: Field] = [:]

  package init(fields: [String: Field]) { self.fields = fields }

  /// Creates the fields from the lines of a record.
  package init(_ lines: [String]) {
    for line in lines {
      guard let end = line.lastIndex(of: ":") else { continue }
      let kind = line[end...].dropFirst(2)
      fields[String(line[..<end])] = Field(
        kind: String(kind.hasSuffix("?") ? kind.dropLast() : kind), isOptional: kind.hasSuffix("?"))
    }
  }

  /// The lines in alphabetical order, empty if there are so many fields that the names are data.
  package var lines: [String] {
    fields.count > Self.limit ? [] : fields.map { "\($0.key): \($0.value.text)" }.sorted()
  }
}
