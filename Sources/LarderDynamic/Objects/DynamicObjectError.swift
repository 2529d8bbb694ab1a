// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// An error of the dynamic access to objects.
package struct DynamicObjectError: Error, Sendable, Hashable, CustomStringConvertible {
  /// The category of a failure. Later versions may add codes.
  package struct Code: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
    package let rawValue: String
    package init(rawValue: String) { self.rawValue = rawValue }
    package var description: String { rawValue }

    /// No stored type has the name.
    package static let unknownType = Code(rawValue: "unknownType")
    /// Several stored types end with the name.
    package static let ambiguousType = Code(rawValue: "ambiguousType")
    /// A migration renamed the type.
    package static let movedType = Code(rawValue: "movedType")
    /// Only the program can compute the keys of an index.
    package static let foreignIndex = Code(rawValue: "foreignIndex")
    /// Only the program can write objects of the type, for another reason.
    package static let foreignType = Code(rawValue: "foreignType")
    /// A line is not an object of the type.
    package static let invalidLine = Code(rawValue: "invalidLine")
    /// Another object has the same key in a unique index.
    package static let uniqueViolation = Code(rawValue: "uniqueViolation")
    /// A program changed the declaration of the type during the import.
    package static let schemaChanged = Code(rawValue: "schemaChanged")
    /// The schema in the first line of a file cannot be read, or contradicts the stored type.
    package static let schemaMismatch = Code(rawValue: "schemaMismatch")
    /// A page seemed damaged after the caller had received part of the result.
    package static let interrupted = Code(rawValue: "interrupted")
  }

  /// The category of the failure.
  package let code: Code
  /// A description of the failure with one remedy.
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
