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
  /// Whether the text is `<tag>:<hexadecimal>`, of a key whose bytes no other form has, such as a text that is not UTF-8.
  let isRaw: Bool

  init(tag: KeyTag) { (self.tag, isRaw) = (tag, false) }

  private init() { (tag, isRaw) = (.text, true) }

  static let text = KeyKind(tag: .text)
  static let integer = KeyKind(tag: .integer)
  static let raw = KeyKind()

  /// Returns a key as text, and the kind with which that text is the key again.
  static func shown(_ key: EncodedKey) -> (text: String, kind: KeyKind) {
    let kind = KeyKind(tag: KeyTag(rawValue: key.tag))
    let text = KeyTextFormat.display(tag: kind.tag, bytes: key.bytes)
    // Only what does not fit its tag begins so, and texts may.
    if text.hasPrefix("\(key.tag):"), (try? kind.key(text))?.bytes != key.bytes {
      return (text, raw)
    }
    return (text, kind)
  }

  /// Creates the kind with this name.
  public init?(argument: String) {
    if let form = KeyTextFormat(rawValue: argument) {
      self.init(tag: form.tag)
    } else if argument == "composite" {
      self.init(tag: .composite)
    } else if argument == "raw" {
      self.init()
    } else if let number = UInt8(argument), number > 0 {
      self.init(tag: KeyTag(rawValue: number))
    } else {
      return nil
    }
  }

  /// The names, for the help.
  public static var allValueStrings: [String] {
    KeyTextFormat.allCases.map(\.rawValue) + ["composite", "raw"]
  }

  /// The name.
  public var description: String {
    if isRaw { return "raw" }
    if let form = KeyTextFormat.allCases.first(where: { $0.tag == tag }) { return form.rawValue }
    return tag == .composite ? "composite" : "\(tag.rawValue)"
  }

  /// Returns the key that a text names.
  func key(_ text: String) throws(CodecError) -> EncodedKey {
    if isRaw { return try Self.rawKey(text) }
    return EncodedKey(tag: tag.rawValue, bytes: try KeyTextFormat.bytes(of: text, tag: tag))
  }

  private static func rawKey(_ text: String) throws(CodecError) -> EncodedKey {
    let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
    guard parts.count == 2, let tag = UInt8(parts[0]), tag > 0 else {
      throw CodecError(
        .invalidKey, operation: .formKey,
        message:
          "\"\(text)\" is not a key of type raw. Write its tag and its bytes, such as 1:00ff.")
    }
    return EncodedKey(tag: tag, bytes: try KeyTextFormat.bytes.encode(String(parts[1])).bytes)
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

  /// The object of the key in JSON answers, which ``init(line:kind:namespace:)`` takes.
  var json: CBORValue {
    let (text, kind) = KeyKind.shown(key)
    return .object([
      ("key", .text(text)), ("keyType", .text(kind.description)), ("namespace", .text(namespace)),
    ])
  }

  /// Creates the key of a line: a JSON object of `larder list`, `watch`, `get`, `explain` or `remove` with --json, or
  /// of an export; or the text of a key.
  ///
  /// - Throws: ``ToolError`` or `CodecError` if the line names no key.
  init(line: String, kind: KeyKind, namespace: String?) throws {
    guard line.hasPrefix("{"), let value = try? JSONReader.value(Array(line.utf8)) else {
      (text, self.namespace) = (line, namespace ?? "")
      key = try kind.key(line)
      return
    }
    func field(_ name: String) -> CBORValue? { FieldPath([name]).value(in: value) }
    func string(_ name: String) -> String? {
      if case .text(let text)? = field(name) { text } else { nil }
    }
    let hasPlace = ["keyType", "keyTag", "namespace", "codec"].contains { field($0) != nil }
    guard hasPlace, let text = string("key") ?? string("keyBase64") else {
      // The text of a key may look like any JSON.
      (self.text, self.namespace) = (line, namespace ?? "")
      key = try kind.key(line)
      return
    }
    // A change of all keys, or of those with a tag.
    if field("keyType") == .null { throw ToolError.usage("A line names no single key: \(line)") }
    // An export leaves the namespace without a name out, and the type of a text.
    let name = string("namespace") ?? ""
    guard namespace?.utf8.elementsEqual(name.utf8) ?? true else {
      throw ToolError.usage(
        "A line names the namespace \"\(name)\", and --namespace another one: \(line)")
    }
    if field("keyCut") == .boolean(true) {
      throw ToolError.usage("A line has only the beginning of its key: \(line)")
    }
    self.namespace = name
    if string("key") == nil {
      guard case .unsigned(let tag)? = field("keyTag"), let number = UInt8(exactly: tag),
        number > 0, let bytes = Base64.bytes(text)
      else { throw ToolError.usage("keyTag and keyBase64 name no key: \(line)") }
      key = EncodedKey(tag: number, bytes: bytes)
      self.text = KeyKind.shown(key).text
      return
    }
    let type = string("keyType") ?? "text"
    guard let kind = KeyKind(argument: type) else {
      throw ToolError.usage("\"\(type)\" is no type of keys, in the line \(line).")
    }
    self.text = text
    key = try kind.key(text)
  }

  /// The key in quotes, and its namespace.
  var place: String {
    "\"\(text)\" in "
      + (namespace.isEmpty ? "the unnamed namespace" : "namespace \"\(namespace)\"")
  }
}
#endif
