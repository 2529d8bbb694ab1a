// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// A failure to encode a value or a key, or to decode it.
///
/// ```swift
/// do {
///   let user = try codec.decode(User.self, from: bytes)
/// } catch let failure as CodecError where failure.code == .typeMismatch {
///   // The entry was written by another version of the type.
/// }
/// ```
public struct CodecError: Error, Sendable {
  /// The kind of failure. Later versions may add codes.
  public struct Code: RawRepresentable, Hashable, Sendable {
    /// The code's stable name.
    public let rawValue: String

    /// Creates a code from its name.
    public init(rawValue: String) {
      self.rawValue = rawValue
    }

    /// The stored bytes contain another type than the requested one.
    public static let typeMismatch = Code(rawValue: "typeMismatch")
    /// A field or an element the type needs is not in the stored bytes.
    public static let missingValue = Code(rawValue: "missingValue")
    /// The bytes are damaged, truncated, or not of this format at all.
    public static let malformed = Code(rawValue: "malformed")
    /// The value or the bytes nest more deeply than the limit.
    public static let tooDeep = Code(rawValue: "tooDeep")
    /// The value or the bytes are longer than the format can describe.
    public static let tooLarge = Code(rawValue: "tooLarge")
    /// A number does not fit the type it is read as.
    public static let outOfRange = Code(rawValue: "outOfRange")
    /// The bytes were written by a codec that this process does not have.
    public static let unsupported = Code(rawValue: "unsupported")
    /// The value's own `encode(to:)`, or its codec, failed.
    public static let encodingFailed = Code(rawValue: "encodingFailed")
    /// The value's own `init(from:)`, or its codec, failed.
    public static let decodingFailed = Code(rawValue: "decodingFailed")
    /// A text cannot be read as a key of the chosen type.
    public static let invalidKey = Code(rawValue: "invalidKey")
  }

  /// The operation that failed. Later versions may add operations.
  public struct Operation: RawRepresentable, Hashable, Sendable {
    /// The operation's stable name.
    public let rawValue: String

    /// Creates an operation from its name.
    public init(rawValue: String) {
      self.rawValue = rawValue
    }

    /// A value was being turned into bytes.
    public static let encode = Operation(rawValue: "encode")
    /// Bytes were being turned into a value.
    public static let decode = Operation(rawValue: "decode")
    /// A key was being formed of text.
    public static let formKey = Operation(rawValue: "formKey")
  }

  /// The kind of failure.
  public let code: Code

  /// The operation that failed.
  public let operation: Operation

  /// The name of the Swift type that was encoded or requested.
  public let typeName: String

  /// The path of the failure in the value, such as `lines[3].price`; empty for the value itself.
  public let codingPath: String

  /// The cause and a remedy, in full sentences.
  public let message: String

  /// The error of the codec or of the value's own code, if there was one.
  public let underlyingError: (any Error)?

  /// Creates a failure. Codecs outside this package can use it too.
  public init(
    _ code: Code, operation: Operation, typeName: String = "", codingPath: String = "",
    message: String, underlyingError: (any Error)? = nil
  ) {
    self.code = code
    self.operation = operation
    self.typeName = typeName
    self.codingPath = codingPath
    self.message = message
    self.underlyingError = underlyingError
  }
}

/// The mark of `DecodingError.keyNotFound` of a type whose `init(from:)` is generated from its declaration, so that
/// a default in the declaration applies to a missing field.
package struct MissingDeclaredField: Error {
  package init() {}
}

extension CodecError: CustomStringConvertible {
  /// The failure in one line.
  public var description: String {
    var text = "\(operation.rawValue)"
    if !typeName.isEmpty { text += " \(typeName)" }
    if !codingPath.isEmpty { text += " at \(codingPath)" }
    text += ": \(message) (\(code.rawValue))"
    if let underlyingError { text += " Cause: \(underlyingError)" }
    return text
  }
}

extension CodecError {
  /// A failure of code that is not ours, as one of ours.
  ///
  /// A `CodecError` passes through; the standard library's coding errors keep their path and
  /// get the code that fits; anything else becomes `.encodingFailed` or `.decodingFailed`.
  public static func wrapping(
    _ error: any Error, operation: Operation, typeName: String
  ) -> CodecError {
    switch error {
    case let failure as CodecError:
      return failure
    case DecodingError.typeMismatch(let wanted, let context):
      return decoding(
        .typeMismatch, context, typeName, "This is not a \(wanted).",
        "The entry was stored as another type: remove it, or read it as the type it was stored as.")
    case DecodingError.valueNotFound(let wanted, let context):
      return decoding(
        .missingValue, context, typeName, "A \(wanted) is needed and there is none.",
        "Make the property optional, or remove the entry and store it again.")
    case DecodingError.keyNotFound(let key, let context)
    where context.underlyingError is MissingDeclaredField:
      return decoding(
        .missingValue, context, typeName, "The field \"\(key.stringValue)\" is missing.",
        "Give the property a default in its declaration, or make it optional. Or remove the entry.")
    case DecodingError.keyNotFound(let key, let context):
      return decoding(
        .missingValue, context, typeName, "The field \"\(key.stringValue)\" is missing.",
        "Declare the property optional, or write an init(from:) that uses decodeIfPresent; a default "
          + "value in the declaration does not apply. Or remove the entry.")
    case DecodingError.dataCorrupted(let context):
      return decoding(
        .malformed, context, typeName, "The bytes cannot be read.",
        "Remove the entry and store it again.")
    case EncodingError.invalidValue(_, let context):
      return CodecError(
        .encodingFailed, operation: .encode, typeName: typeName,
        codingPath: pathText(context.codingPath),
        message: "\(context.debugDescription) Store a value the codec can write.",
        underlyingError: context.underlyingError)
    default:
      let encoding = operation == .encode
      return CodecError(
        encoding ? .encodingFailed : .decodingFailed, operation: operation, typeName: typeName,
        message: encoding
          ? "The value refused to be encoded. Look at the cause."
          : "The value refused to be decoded. Look at the cause, or remove the entry.",
        underlyingError: error)
    }
  }

  private static func decoding(
    _ code: Code, _ context: DecodingError.Context, _ typeName: String, _ found: String,
    _ advice: String
  ) -> CodecError {
    let detail = context.debugDescription.isEmpty ? "" : " \(context.debugDescription)"
    return CodecError(
      code, operation: .decode, typeName: typeName, codingPath: pathText(context.codingPath),
      message: "\(found)\(detail) \(advice)",
      underlyingError: context.underlyingError is MissingDeclaredField
        ? nil : context.underlyingError)
  }

  /// A coding path as a programmer would write it: `lines[3].price`.
  package static func pathText(_ path: [any CodingKey]) -> String {
    var text = ""
    for key in path {
      if let index = key.intValue {
        text += "[\(index)]"
      } else {
        text += text.isEmpty ? key.stringValue : ".\(key.stringValue)"
      }
    }
    return text
  }
}
