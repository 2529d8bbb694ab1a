// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderSystem

// FIELDS WITHOUT THE OBJECT
//
// A query that judges a hundred thousand objects to find ten needs one or two fields of each. These
// are read where they lie, if the type declares under which names its properties are stored
// (`DeclaresFields`): the object is a CBOR map (RFC 8949), its fields are passed over until the
// one sought, and that alone is made into a value. Nothing is trusted that a checksum does not cover,
// and nothing is guessed: whatever is not plain is `unclear`, and the object is decoded. Plain is a map
// as Larder writes it: its keys are texts with the shortest heads, in ascending order, so that none is
// there twice, and nothing is behind it. The decoder takes more than that and refuses some of it; it
// never finds another value under a name than is found here. What lies inside of other fields is
// passed over.

/// Where a field of a stored object is.
package enum StoredField {
  case found(Range<Int>)
  case missing
  case unclear

  /// Seeks a field by its name, encoded as CBOR text.
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

  /// Whether a key comes before another, byte by byte; mostly their heads tell.
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

    /// Whether no shorter head says the same.
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

  /// The head of an item; `nil`: there is none, or its length is indefinite.
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

  /// The offset behind an item; `nil`: that is not plain.
  static func skip(_ bytes: RawSpan, _ offset: Int, depth: Int = 0) -> Int? {
    guard depth < 64, let head = head(bytes, offset) else { return nil }
    switch head.major {
    case 0, 1: return head.end
    // A simple value in two bytes is one of the upper ones.
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
  /// A value under a name in an object: `nil`, if that is not plain; `nil` in it, if it is missing.
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

/// A property of an object as it can be read from the stored bytes, if the type declares its field.
struct StoredProperty<Object: Storable>: Sendable {
  let path: AnyPath
  /// Judges the property's field; `nil`: it is not plain.
  let holds: @Sendable (RawSpan) -> Bool?
  /// Judges the absence of the field.
  let holdsWithout: @Sendable () -> Bool?

  /// - Returns: `nil`: values of the type are not read by themselves.
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
    holdsWithout = { (Scalar.absent as? Value).map(holds) }
  }
}

/// A type that declares under which names its properties are stored, so that queries evaluate them
/// without decoding the object.
///
/// The declaration promises that `init(from:)` gives each of these properties the value of its field and
/// `nil` without one, whatever the other fields are, and that `encode(to:)` writes it so.
package protocol DeclaresFields: Storable {
  /// The names by properties. Properties that are not listed are evaluated on decoded objects.
  static var storedFields: [PartialKeyPath<Self>: String] { get }
}

extension Storable {
  /// The declared names, as keys in CBOR.
  static var storedKeys: [AnyPath: [UInt8]] {
    func keys<Object: DeclaresFields>(of type: Object.Type) -> [AnyPath: [UInt8]] {
      var keys: [AnyPath: [UInt8]] = [:]
      for (path, name) in Object.storedFields {
        keys[AnyPath(path: path)] = CBORValue.text(name).encoded
      }
      return keys
    }
    return (Self.self as? any DeclaresFields.Type).map { keys(of: $0) } ?? [:]
  }
}
