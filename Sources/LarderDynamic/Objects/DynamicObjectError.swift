// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// What went wrong with objects whose Swift types are not known.
package struct DynamicObjectError: Error, Sendable, Hashable, CustomStringConvertible {
  /// What kind of failure it was. Open: later versions may add codes.
  package struct Code: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
    package let rawValue: String
    package init(rawValue: String) { self.rawValue = rawValue }
    package var description: String { rawValue }

    /// Nothing of such a name is stored.
    package static let unknownType = Code(rawValue: "unknownType")
    /// Several stored types end in this name.
    package static let ambiguousType = Code(rawValue: "ambiguousType")
    /// A migration gave the type another name.
    package static let movedType = Code(rawValue: "movedType")
    /// Keys of an index can only be made by the program.
    package static let foreignIndex = Code(rawValue: "foreignIndex")
    /// Something else of the type can only be written by the program.
    package static let foreignType = Code(rawValue: "foreignType")
    /// A line that is no object of the type.
    package static let invalidLine = Code(rawValue: "invalidLine")
    /// Another object has the same key of a unique index.
    package static let uniqueViolation = Code(rawValue: "uniqueViolation")
    /// The type was declared anew while objects were written.
    package static let schemaChanged = Code(rawValue: "schemaChanged")
    /// The schema in the first line of a file cannot be read, or contradicts the stored type.
    package static let schemaMismatch = Code(rawValue: "schemaMismatch")
    /// A page that seemed damaged, after part of the answer had been given.
    package static let interrupted = Code(rawValue: "interrupted")
  }

  package let code: Code
  /// What happened and what to do about it.
  package let message: String
  /// The line of the input, from 1.
  package let line: Int?

  package init(_ code: Code, _ message: String, line: Int? = nil) {
    self.code = code
    self.message = message
    self.line = line
  }

  package var description: String { (line.map { "line \($0): " } ?? "") + "\(message) [\(code)]" }
}
