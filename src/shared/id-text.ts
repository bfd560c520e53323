/** An id made of base64url. No id begins with `-`: command lines would take it for an option. */
export const idText = (base64url: string): string => (base64url.startsWith("-") ? `A${base64url.slice(1)}` : base64url);
