// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(FoundationEssentials)
internal import FoundationEssentials
#else
internal import Foundation
#endif

// Any text can be the key of a file. Its name is made such that
//
// * different keys have different names, also where file systems see none: in case, in Unicode
//   normalisation, in trailing dots;
// * no name leaves the folder, is hidden, is a device, or is longer than file systems take.
//
// Lower-case letters, digits, `-`, `_` and dots that are not the first stay as they are. Every other
// byte of the key's UTF-8 is `%` and two hexadecimal digits. The empty key is `%` alone. If that is more
// than 120 bytes, the name is its first 40, `~`, and the SHA-256 of the key. All names end in `.value`;
// what else is in the folder begins with a dot.

/// The key of a file in a folder: any text, of any length.
///
/// Two are equal if their bytes are.
public struct Filename: RawRepresentable, Hashable, Sendable, ExpressibleByStringLiteral,
  CustomStringConvertible
{
  /// The key as given.
  public var rawValue: String

  public init(rawValue: String) { self.rawValue = rawValue }
  public init(stringLiteral value: String) { self.rawValue = value }

  public var description: String { rawValue }

  public static func == (left: Filename, right: Filename) -> Bool {
    left.rawValue == right.rawValue && left.rawValue.utf8.elementsEqual(right.rawValue.utf8)
  }

  // Strings that are equal in Swift share a hash and are compared by their bytes.
  public func hash(into hasher: inout Hasher) { hasher.combine(rawValue) }

  /// The name of the key's file in a ``DiskFolderStorage``.
  public var fileName: String {
    let bytes = Array(rawValue.utf8)
    var name = ""
    for (index, byte) in bytes.enumerated() {
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
        UInt8(ascii: "-"), UInt8(ascii: "_"):
        name.unicodeScalars.append(Unicode.Scalar(byte))
      case UInt8(ascii: ".") where index > 0: name += "."
      default: name += byte < 16 ? "%0" + String(byte, radix: 16) : "%" + String(byte, radix: 16)
      }
      // No longer than needed: a key may have any length.
      if name.utf8.count > 120 { break }
    }
    if bytes.isEmpty { name = "%" }
    if name.utf8.count > 120 { name = name.prefix(40) + "~" + SHA256.hexadecimal(bytes) }
    return name + ".value"
  }

  /// The key in Base64, as Shallows named files: with slashes in it.
  public func base64Encoded() -> String { Data(rawValue.utf8).base64EncodedString() }

  /// The key in the alphabet of Base64 for URLs and file names.
  public func base64URLEncoded() -> String {
    String(
      base64Encoded().compactMap { character in
        switch character {
        case "+": "-"
        case "/": "_"
        default: character
        }
      })
  }
}

extension StorageProtocol where Key == Filename {
  /// The storage with keys of type `String`.
  public func usingStringKeys() -> Storage<String, Value> {
    mapKeys(to: String.self, { Filename(rawValue: $0) }, back: { $0.rawValue })
  }
}

extension ReadOnlyStorageProtocol where Key == Filename {
  /// The storage with keys of type `String`.
  public func usingStringKeys() -> ReadOnlyStorage<String, Value> {
    asReadOnlyStorage().mapped {
      $0.mapKeys({ Filename(rawValue: $0) }, back: { $0.rawValue })
    }
  }
}

extension WriteOnlyStorageProtocol where Key == Filename {
  /// The storage with keys of type `String`.
  public func usingStringKeys() -> WriteOnlyStorage<String, Value> {
    mapKeys(to: String.self) { Filename(rawValue: $0) }
  }
}
