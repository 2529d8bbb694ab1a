// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// Why something could not be done with defaults, and what to do about it.
///
/// What the store itself refuses (a full disk, missing rights, a closed handle) comes as its own
/// `StoreError`.
///
/// ```swift
/// do {
///   let size = try Defaults.shared.value(Int.self, forKey: "fontSize")
///   print(size ?? 12)
/// } catch let error as DefaultsError where error.code == .typeMismatch {
///   // Another version of the program keeps something else there; it is still there.
/// }
/// ```
public struct DefaultsError: Error, Sendable, CustomStringConvertible {
  /// What kind of failure it was. Open: later versions may add codes.
  public struct Code: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    /// The code's stable name.
    public let rawValue: String
    /// Makes a code of its name.
    public init(rawValue: String) { self.rawValue = rawValue }
    /// The code's stable name.
    public var description: String { rawValue }

    /// A suite's name is empty, too long, or would lead out of the directory of the suites.
    public static let invalidSuiteName = Code(rawValue: "invalidSuiteName")
    /// What is stored for the key is sound, and of another type than was asked for.
    public static let typeMismatch = Code(rawValue: "typeMismatch")
    /// What is stored for the key is damaged.
    public static let unreadable = Code(rawValue: "unreadable")
    /// The value refused to be encoded.
    public static let notEncodable = Code(rawValue: "notEncodable")
    /// The suite was to be written within its own `write(_:)` or `update`.
    public static let nestedWrite = Code(rawValue: "nestedWrite")
    /// A property list cannot hold it, or what was given is no property list of a dictionary.
    public static let propertyList = Code(rawValue: "propertyList")
  }

  /// What kind of failure it was.
  public let code: Code
  /// The key concerned; `nil`: the suite.
  public let key: String?
  /// What happened and what to do, in a sentence or two.
  public let message: String
  /// The error of the codec or of the value's own coding, if there was one.
  public let underlyingError: (any Error)?

  package init(
    _ code: Code, key: String? = nil, _ message: String, underlyingError: (any Error)? = nil
  ) {
    self.code = code
    self.key = key
    self.message = message
    self.underlyingError = underlyingError
  }

  /// The failure in one line.
  public var description: String {
    let place = key.map { "\(Self.shown($0)): " } ?? ""
    return "\(place)\(message) [\(code)]"
  }

  /// A key or name in quotes as it fits in a line: not too long, and without control characters.
  static func shown(_ text: String) -> String {
    let beginning = String(String.UnicodeScalarView(text.unicodeScalars.prefix(80)))
    return String(reflecting: beginning) + (beginning.utf8.count < text.utf8.count ? "…" : "")
  }
}
