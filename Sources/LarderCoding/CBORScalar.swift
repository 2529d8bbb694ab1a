// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// The protocols of the standard library's containers have one requirement per standard type. One
// generic method per container satisfies all of them, and the compiler specialises it for each type.
// A keyed container is generic over its keys as well, which prevents the specialisation: there the
// method is inlined into the witnesses.
//
// Every container has separate methods for the types of 128 bits. The standard library has default
// implementations of these that throw, and the compiler prefers them to a generic method.

/// A type of the standard library that is one CBOR item.
protocol CBORScalar: Codable {
  /// Writes the value.
  func write(to writer: inout CBORWriter)

  /// Reads a value from the item at an offset.
  static func read(from document: CBORDocument, at offset: Int) throws -> Self
}

extension CBORScalar where Self: FixedWidthInteger {
  @inline(__always)
  func write(to writer: inout CBORWriter) {
    if Self.isSigned {
      writer.write(Int64(truncatingIfNeeded: self))
    } else {
      writer.write(UInt64(truncatingIfNeeded: self))
    }
  }

  @inline(__always)
  static func read(from document: CBORDocument, at offset: Int) throws -> Self {
    try document.integer(Self.self, at: offset)
  }
}

extension Int: CBORScalar {}
extension Int8: CBORScalar {}
extension Int16: CBORScalar {}
extension Int32: CBORScalar {}
extension Int64: CBORScalar {}
extension UInt: CBORScalar {}
extension UInt8: CBORScalar {}
extension UInt16: CBORScalar {}
extension UInt32: CBORScalar {}
extension UInt64: CBORScalar {}

extension Int128: CBORScalar {
  func write(to writer: inout CBORWriter) { writer.write(big: self) }
}

extension UInt128: CBORScalar {
  func write(to writer: inout CBORWriter) { writer.write(big: self) }
}

extension Bool: CBORScalar {
  @inline(__always)
  func write(to writer: inout CBORWriter) { writer.write(self) }

  @inline(__always)
  static func read(from document: CBORDocument, at offset: Int) throws -> Bool {
    try document.boolean(at: offset)
  }
}

extension String: CBORScalar {
  @inline(__always)
  func write(to writer: inout CBORWriter) { writer.write(text: self) }

  @inline(__always)
  static func read(from document: CBORDocument, at offset: Int) throws -> String {
    try document.text(at: offset)
  }
}

extension Double: CBORScalar {
  @inline(__always)
  func write(to writer: inout CBORWriter) { writer.write(self) }

  @inline(__always)
  static func read(from document: CBORDocument, at offset: Int) throws -> Double {
    try document.double(at: offset)
  }
}

extension Float: CBORScalar {
  @inline(__always)
  func write(to writer: inout CBORWriter) { writer.write(self) }

  @inline(__always)
  static func read(from document: CBORDocument, at offset: Int) throws -> Float {
    try document.single(at: offset)
  }
}
