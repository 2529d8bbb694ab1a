// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
// Public, because the conformance below is.
public import ArgumentParser
import LarderCoding
import LarderDynamic
import LarderEngine

// What `larder list` prints as "keyType" is what `--key-type` accepts, and its "key" names the entry:
// of every kind, also of composites and of kinds that this version does not know.

/// The kind of a key: the name of a text form, `composite`, or the number of an unknown tag.
public struct KeyKind: ExpressibleByArgument, Hashable, Sendable, CustomStringConvertible {
  let tag: KeyTag

  init(tag: KeyTag) { self.tag = tag }

  static let text = KeyKind(tag: .text)
  static let integer = KeyKind(tag: .integer)

  /// Creates the kind with this name.
  public init?(argument: String) {
    if let form = KeyTextFormat(rawValue: argument) {
      tag = form.tag
    } else if argument == "composite" {
      tag = .composite
    } else if let number = UInt8(argument), number > 0 {
      tag = KeyTag(rawValue: number)
    } else {
      return nil
    }
  }

  /// The names, for the help.
  public static var allValueStrings: [String] {
    KeyTextFormat.allCases.map(\.rawValue) + ["composite"]
  }

  /// The name.
  public var description: String {
    if let form = KeyTextFormat.allCases.first(where: { $0.tag == tag }) { return form.rawValue }
    return tag == .composite ? "composite" : "\(tag.rawValue)"
  }

  /// Returns the key that a text names.
  func key(_ text: String) throws(CodecError) -> EncodedKey {
    EncodedKey(tag: tag.rawValue, bytes: try KeyTextFormat.bytes(of: text, tag: tag))
  }
}

/// A key with its namespace, as a command prints it.
struct PrintedKey {
  let text: String
  let namespace: String
  let key: EncodedKey

  init(text: String, namespace: String, key: EncodedKey) {
    (self.text, self.namespace, self.key) = (text, namespace, key)
  }

  /// Creates the key of a line: a JSON object with "key", "keyType" and "namespace", as `larder list
  /// --json` prints it, or the text of a key.
  ///
  /// - Throws: ``ToolError`` or `CodecError` if the line names no key.
  init(line: String, kind: KeyKind, namespace: String?) throws {
    guard line.hasPrefix("{"), let value = try? JSONReader.value(Array(line.utf8)),
      case .text(let text)? = FieldPath(["key"]).value(in: value),
      case .text(let type)? = FieldPath(["keyType"]).value(in: value),
      case .text(let name)? = FieldPath(["namespace"]).value(in: value)
    else {
      (self.text, self.namespace) = (line, namespace ?? "")
      key = try kind.key(line)
      return
    }
    guard namespace?.utf8.elementsEqual(name.utf8) ?? true else {
      throw ToolError.usage(
        "A line names the namespace \"\(name)\", and --namespace another one: \(line)")
    }
    guard let kind = KeyKind(argument: type) else {
      throw ToolError.usage("\"\(type)\" is no type of keys, in the line \(line).")
    }
    (self.text, self.namespace) = (text, name)
    key = try kind.key(text)
  }

  /// The key in quotes, and its namespace.
  var place: String {
    "\"\(text)\" in "
      + (namespace.isEmpty ? "the unnamed namespace" : "namespace \"\(namespace)\"")
  }
}
#endif
