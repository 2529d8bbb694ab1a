// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// A failure of an operation on defaults, with a remedy.
///
/// Failures of the store itself (a full disk, missing permissions, a closed handle) are
/// `StoreError`s.
///
/// ```swift
/// do {
///   let size = try Defaults.shared.value(Int.self, forKey: "fontSize")
///   print(size ?? 12)
/// } catch let error as DefaultsError where error.code == .typeMismatch {
///   // Another version of the program stores another type under the key; its value is unchanged.
/// }
/// ```
public struct DefaultsError: Error, Sendable, CustomStringConvertible {
  /// The category of a failure. Later versions may add codes.
  public struct Code: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    /// The code as a string that is stable across versions.
    public let rawValue: String
    /// Creates a code from its string.
    public init(rawValue: String) { self.rawValue = rawValue }
    /// The string of the code.
    public var description: String { rawValue }

    /// A suite's name is empty, too long, or would lead out of the directory of the suites.
    public static let invalidSuiteName = Code(rawValue: "invalidSuiteName")
    /// The stored value is valid and has another type than the requested one.
    public static let typeMismatch = Code(rawValue: "typeMismatch")
    /// The stored value is damaged.
    public static let unreadable = Code(rawValue: "unreadable")
    /// The value cannot be encoded.
    public static let notEncodable = Code(rawValue: "notEncodable")
    /// A closure of `write(_:)` or `update` wrote to the same suite other than through its argument.
    public static let nestedWrite = Code(rawValue: "nestedWrite")
    /// A property list cannot contain the value, or the data is not a property list of a dictionary.
    public static let propertyList = Code(rawValue: "propertyList")
  }

  /// The category of the failure.
  public let code: Code
  /// The key, or `nil` if the failure concerns the suite.
  public let key: String?
  /// The failure and a remedy, in a sentence or two.
  public let message: String
  /// The error of the codec or of the value's `Codable` implementation, if one caused the failure.
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

  /// Returns a key or name in quotes, shortened and without control characters, for one line.
  static func shown(_ text: String) -> String {
    let beginning = String(String.UnicodeScalarView(text.unicodeScalars.prefix(80)))
    return String(reflecting: beginning) + (beginning.utf8.count < text.utf8.count ? "…" : "")
  }
}
