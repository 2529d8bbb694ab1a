// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderSystem

// FIELDS WITHOUT THE OBJECT
//
// A query that filters a hundred thousand objects to find ten needs one or two fields of each. It
// reads them in place if the type declares the names under which its properties are stored
// (`DeclaresSchema`): the object is a CBOR map (RFC 8949), the reader skips its fields up to the
// requested one, and decodes only that field. The reader accepts only bytes that a checksum covers
// and never guesses: any input that is not plain is `unclear`, and the query decodes the object.
// Plain is a map as Larder writes it: its keys are strings with the shortest heads, in ascending
// order, so that no key occurs twice, and no bytes follow it. The decoder accepts more forms and
// rejects some of them; it never finds another value under a name than this reader. The reader
// skips the contents of other fields.

/// The location of a field in a stored object.
package enum StoredField {
  case found(Range<Int>)
  case missing
  case unclear

  /// Finds a field by its name, encoded as a CBOR text string.
  static func find(_ name: [UInt8], in object: RawSpan) -> StoredField {
    guard let map = head(object, 0), map.major == 5 else { return .unclear }
    var offset = map.end
    var last = offset..<offset
    var found = StoredField.missing
    for _ in 0..<map.argument {
      guard let key = head(object, offset), key.major == 3, key.isShortest,
        let value = skip(object, offset, depth: 0), isAscending(object, last, offset..<value),
        let end = skip(object, value, depth: 0)
      else { return .unclear }
      if value - offset == name.count, object.slice(offset..<value)!.equals(name) {
        found = .found(value..<end)
      }
      last = offset..<value
      offset = end
    }
    return offset == object.byteCount ? found : .unclear
  }

  /// Returns whether a key precedes another in byte order; the heads usually decide.
  private static func isAscending(_ bytes: RawSpan, _ left: Range<Int>, _ right: Range<Int>) -> Bool
  {
    var (first, second) = (left.lowerBound, right.lowerBound)
    while first < left.upperBound, second < right.upperBound {
      guard let one: UInt8 = bytes.integer(at: first), let other: UInt8 = bytes.integer(at: second)
      else { return false }
      if one != other { return one < other }
      first += 1
      second += 1
    }
    return first == left.upperBound && second < right.upperBound
  }

  struct Head {
    let major: UInt8
    /// The lowest five bits of the first byte.
    let info: UInt8
    let argument: UInt64
    let end: Int

    /// Whether the head has the shortest form.
    var isShortest: Bool {
      switch info {
      case 24: argument >= 24
      case 25: argument > 0xFF
      case 26: argument > 0xFFFF
      case 27: argument > 0xFFFF_FFFF
      default: true
      }
    }
  }

  /// Returns the head of an item, or `nil` if there is none or its length is indefinite.
  @inline(__always)
  static func head(_ bytes: RawSpan, _ offset: Int) -> Head? {
    guard let initial: UInt8 = bytes.integer(at: offset) else { return nil }
    let info = initial & 0x1f
    var argument = UInt64(info)
    var end = offset + 1
    switch info {
    case 0..<24: break
    case 24:
      guard let word: UInt8 = bytes.integer(at: end) else { return nil }
      (argument, end) = (UInt64(word), end + 1)
    case 25:
      guard let word: UInt16 = bytes.integer(at: end) else { return nil }
      (argument, end) = (UInt64(word.byteSwapped), end + 2)
    case 26:
      guard let word: UInt32 = bytes.integer(at: end) else { return nil }
      (argument, end) = (UInt64(word.byteSwapped), end + 4)
    case 27:
      guard let word: UInt64 = bytes.integer(at: end) else { return nil }
      (argument, end) = (word.byteSwapped, end + 8)
    default: return nil
    }
    return Head(major: initial >> 5, info: info, argument: argument, end: end)
  }

  /// Returns the offset after an item, or `nil` if the item is not plain.
  static func skip(_ bytes: RawSpan, _ offset: Int, depth: Int = 0) -> Int? {
    guard depth < 64, let head = head(bytes, offset) else { return nil }
    switch head.major {
    case 0, 1: return head.end
    // A simple value in two bytes must be at least 32.
    case 7: return head.info == 24 && head.argument < 32 ? nil : head.end
    case 2, 3:
      guard head.argument <= UInt64(bytes.byteCount - head.end) else { return nil }
      return head.end + Int(head.argument)
    case 6: return skip(bytes, head.end, depth: depth + 1)
    default:
      guard head.argument <= UInt64(bytes.byteCount) else { return nil }
      var end = head.end
      for _ in 0..<(head.major == 5 ? head.argument * 2 : head.argument) {
        guard let next = skip(bytes, end, depth: depth + 1) else { return nil }
        end = next
      }
      return end
    }
  }
}

extension StoredField {
  /// Reads the value of a name in an object.
  ///
  /// - Parameters:
  ///   - type: The type of the value.
  ///   - name: The name of the field.
  ///   - object: The stored object.
  /// - Returns: `nil` if the object is not plain; an inner `nil` if the field is missing.
  package static func read<Value>(
    _ type: Value.Type, _ name: String, in object: [UInt8]
  ) -> Value?? {
    func read<Scalar: StoredScalar>(_ type: Scalar.Type) -> Value?? {
      object.withRawSpan { object in
        switch find(CBORValue.text(name).encoded, in: object) {
        case .found(let range):
          (Scalar?.read(object.slice(range)!) as Scalar??).map { $0 as! Value? }
        case .missing: .some(nil)
        case .unclear: nil
        }
      }
    }
    return (type as? any StoredScalar.Type).flatMap { read($0) }
  }
}

/// A property that is read from the stored bytes, if the type declares its field.
struct StoredProperty<Object: Storable>: Sendable {
  let path: AnyPath
  /// Evaluates the property's field; `nil` if it is not plain.
  let holds: @Sendable (RawSpan) -> Bool?
  /// Evaluates the absence of the field.
  let holdsWithout: @Sendable (DeclaredField) -> Bool?

  /// Creates the stored form of a property.
  ///
  /// - Returns: The property, or `nil` if values of the type cannot be read without decoding the
  ///   object.
  init?<Value>(
    _ path: PropertyPath<Object, Value>, _ holds: @escaping @Sendable (Value) -> Bool
  ) {
    guard let scalar = Value.self as? any StoredScalar.Type else { return nil }
    self.init(opening: scalar, path, holds)
  }

  private init?<Scalar: StoredScalar, Value>(
    opening type: Scalar.Type, _ path: PropertyPath<Object, Value>,
    _ holds: @escaping @Sendable (Value) -> Bool
  ) {
    guard path is PropertyPath<Object, Scalar> else { return nil }
    self.path = path.erased
    self.holds = { field in
      guard let value = Scalar.read(field), let value = value as? Value else { return nil }
      return holds(value)
    }
    holdsWithout = { field in
      guard let value: Scalar = field.valueWithoutField(), let value = value as? Value else {
        return nil
      }
      return holds(value)
    }
  }
}
